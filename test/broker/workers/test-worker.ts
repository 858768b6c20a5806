import { systemClock } from "../../../src/std/clock.ts";
import { systemRandom } from "../../../src/std/random.ts";
import { AmqpWorker, type AmqpWorkerOptions } from "../../../src/worker/amqp/amqp-worker.ts";

/** A worker of this code over a broker, which nobody listens to unless `options` say so; a bug in it fails the test. */
export function testWorker(
  url: string,
  workflows: AmqpWorkerOptions["workflows"],
  options: Partial<AmqpWorkerOptions> = {},
): AmqpWorker {
  return new AmqpWorker({
    url,
    workflows,
    prefix: "rondo",
    name: "test",
    capacity: 10,
    clock: systemClock(),
    random: systemRandom,
    onLog: () => {},
    onTrouble: () => {},
    onReady: () => {},
    onNote: () => {},
    onBug: (thrown) => {
      throw thrown;
    },
    ...options,
  });
}
