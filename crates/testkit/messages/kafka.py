"""A cluster of Kafka for tests, with the topic `orders`. It says where its brokers listen, and then answers each line with a line of JSON: `keys A B` where librdkafka puts these keys, `read N` so many records."""

import json
import sys

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 4


def main():
    cluster = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "partitioner": "murmur2_random"})
    brokers = cluster.list_topics(timeout=20).brokers.values()
    cluster.list_topics("orders", timeout=20)
    cluster.list_topics("keys", timeout=20)
    addresses = [f"{broker.host}:{broker.port}" for broker in brokers]
    print(json.dumps(addresses), flush=True)
    reader = Consumer({"bootstrap.servers": ",".join(addresses), "group.id": "tests", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("orders", each, 0) for each in range(PARTITIONS)])
    for line in sys.stdin:
        order, *words = line.split()
        answer = place(cluster, words) if order == "keys" else read(reader, int(words[0]))
        print(json.dumps(answer), flush=True)


def place(cluster, keys):
    placed = {}
    for key in keys:
        cluster.produce("keys", key=key, on_delivery=lambda _, message: placed.update({message.key().decode(): message.partition()}))
    cluster.flush(20)
    return placed


def read(reader, count):
    records = []
    while len(records) < count:
        message = reader.poll(20)
        if message is None or message.error():
            return str(message and message.error())
        records.append({
            "key": message.key() and message.key().decode(),
            "value": message.value() and message.value().decode(),
            "headers": [[name, value.decode()] for name, value in message.headers() or []],
            "partition": message.partition(),
            "offset": message.offset(),
        })
    return sorted(records, key=lambda record: (record["partition"], record["offset"]))


main()
