"""A collaborator as a process: pulls windows from a stream and notes every frame as a JSON line.

Usage: collaborator.py HOST PORT VEHICLE FIRST LAST LENGTH FILE
"""

import hashlib
import json
import sys

from carla_bridge.stream.client import StreamClient


def main(host, port, vehicle, first, last, length, file):
    with StreamClient(host, int(port), vehicle, patience=90.0) as client, open(file, "a") as notes:  # noqa: PTH123
        start = float(first)
        while start < float(last):
            for frame in client.window(start, start + float(length)):
                digest = hashlib.sha256(frame.image.tobytes() + frame.boxes.tobytes()).hexdigest()
                row = {
                    "window": start,
                    "time": frame.timestamp,
                    "vehicle": frame.vehicle,
                    "domain": frame.domain,
                    "digest": digest,
                }
                notes.write(json.dumps(row) + "\n")
                notes.flush()
            notes.write(json.dumps({"done": start}) + "\n")
            notes.flush()
            start += float(length)


if __name__ == "__main__":
    main(*sys.argv[1:])
