"""The rules by which images make a domain."""

import pytest

from carla_bridge.config.image_rule import ImageRule
from carla_bridge.errors import ConfigError


@pytest.mark.parametrize(
    ("rule", "attributes", "fits"),
    [
        ("scene=city street|residential", {"scene": "City  Street"}, True),
        ("scene=city street|residential", {"scene": "highway"}, False),
        ("scene=highway", {"weather": "clear"}, False),
        ("scene=highway, weather=rainy", {"scene": "highway", "weather": "rainy"}, True),
        ("scene=highway, weather=rainy", {"scene": "highway", "weather": "clear"}, False),
        ("brightness<40", {"brightness": "39.9"}, True),
        ("brightness<40", {"brightness": "40"}, False),
        ("brightness <= 40", {"brightness": "40"}, True),
        ("brightness>=40", {"brightness": "40"}, True),
        ("brightness>40", {"brightness": "40"}, False),
        ("brightness>40", {"brightness": "1e2"}, True),
        ("brightness>=40, brightness<100", {"brightness": "100"}, False),
        ("brightness>=40, brightness<100", {"brightness": "99"}, True),
        ("brightness<40", {"brightness": "dark"}, False),
        ("brightness<40", {"brightness": "nan"}, False),
        ("brightness>=40", {"brightness": "nan"}, False),
        ("brightness>=40", {}, False),
    ],
)
def test_what_a_rule_fits(rule, attributes, fits):
    assert ImageRule.parse(rule).fits(attributes) == fits


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("night", "'night' has no attribute and value"),
        ("", "'' has no attribute and value"),
        ("=x", "'=x' has no attribute and value"),
        ("scene=a|", "'scene=a|' has an empty value"),
        ("scene=a,", "'' has no attribute and value"),
        ("brightness<dark", "'brightness<dark' compares with 'dark', which is not a number"),
        ("brightness<inf", "compares with 'inf'"),
    ],
)
def test_what_is_no_rule_is_refused(text, problem):
    with pytest.raises(ConfigError) as refused:
        ImageRule.parse(text)
    assert problem in str(refused.value)


def test_what_images_have_is_told_in_few_words():
    rule = ImageRule.parse("brightness<0, scene=sea, town=x")
    images = [{"brightness": str(number), "scene": "city" if number % 3 else "highway"} for number in range(20)]
    assert rule.found(images) == (
        "brightness is 0 to 19; scene is city (13), highway (7); no image has the attribute 'town'; their attributes: "
        "brightness, scene"
    )
