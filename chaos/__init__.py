"""Breaks running federations on purpose, and checks that nothing is lost and nothing is wrong: `make chaos`.

Each attempt runs a small federation of real processes and disturbs it: processes are killed, also in the middle of a
write, or stopped for a while, the disk fills up, the link is cut, a state file is damaged, a second command works on
the same folder. Whoever dies is started again, as a person would. In the end an attempt must have the bits of an
undisturbed run, and whatever could not go on must have said why in one sentence.
"""
