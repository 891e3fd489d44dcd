"""What the world waits for before it goes on, without a server around it."""

import asyncio
import time

from carla_bridge.simulator.protocol import streams
from carla_bridge.simulator.protocol.streams import StreamHub

STREAM = 7


async def subscribe(port):
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(STREAM.to_bytes(4, "little"))
    return writer


def test_the_world_waits_for_a_subscription_that_was_promised():
    async def run():
        hub = StreamHub()
        await hub.start("127.0.0.1", 0)
        hub.expect(STREAM)
        settling = asyncio.create_task(hub.wait_for_subscribers())
        await asyncio.sleep(0.1)
        assert not settling.done()
        subscriber = await subscribe(hub.port)
        await asyncio.wait_for(settling, streams.SUBSCRIPTION / 2)
        assert hub.has_listeners(STREAM)
        subscriber.close()
        await hub.stop()

    asyncio.run(run())


def test_tokens_that_nobody_used_are_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(streams, "HANDSHAKE", 0.05)

    async def run():
        hub = StreamHub()
        hub.expect(STREAM)
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await hub.wait_for_subscribers()
        assert time.monotonic() - start < streams.SUBSCRIPTION / 2

    asyncio.run(run())


def test_a_hoard_of_tokens_costs_no_more_than_a_few(monkeypatch):
    monkeypatch.setattr(streams, "SUBSCRIPTION", 0.2)

    async def run():
        hub = StreamHub()
        for stream in range(20_000):
            hub.expect(stream)
        settling = asyncio.create_task(hub.wait_for_subscribers())
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= streams.MOST_EXPECTED + 2
        await settling
        start = time.monotonic()
        await hub.wait_for_subscribers()
        assert time.monotonic() - start < streams.SUBSCRIPTION, "and that once"

    asyncio.run(run())
