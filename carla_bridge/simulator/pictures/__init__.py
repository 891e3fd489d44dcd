"""From camera sensors to image messages: the processes that draw, and what they are asked to draw."""
