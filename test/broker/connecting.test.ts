// Connections that cannot be made: the error names the address and what to check.
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { expect, test } from "vitest";
import { checkBroker } from "../../src/net/amqp/check-broker.ts";
import { isBrokerUrl } from "../../src/protocol/broker-address.ts";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";

const failure = (url: string): Promise<string> =>
  checkBroker(url).then(
    () => "it is there",
    (thrown: Error) => thrown.message,
  );

test.each([
  ["amqp://localhost", true],
  ["amqps://u:p@broker.example:5671/v", true],
  ["amqp://", false],
  ["amqp:///vhost", false],
  ["amqp:localhost", false],
  ["http://localhost:5672", false],
  ["localhost:5672", false],
  [17, false],
])("%s is the address of a broker: %s", (text, is) => {
  expect(isBrokerUrl(text)).toBe(is);
});

test("a virtual host that is not there, and a user that is not let in, are told from each other", async () => {
  const broker = await openTestBroker();
  const url = new URL(broker.url);
  url.pathname = "/not-there";
  const vhost = await failure(url.href);
  expect(vhost).toContain(`${url.hostname}:${url.port}/not-there`);
  expect(vhost).toContain('the virtual host "not-there" does not exist');
  const other = new URL(broker.url);
  other.password = "wrong";
  const user = await failure(other.href);
  expect(user).toContain("check user and password");
  expect(user).not.toContain("wrong");
  await broker.remove();
}, 180_000);

test("a port where something else listens, or nothing, says so with the address", async () => {
  const http = createServer((_, answer) => answer.end("hello"));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as AddressInfo;
  const said = await failure(`amqp://127.0.0.1:${port}`);
  expect(said).toContain(`127.0.0.1:${port}`);
  expect(said).toContain("does not speak AMQP");
  http.closeAllConnections();
  await new Promise((resolve) => http.close(resolve));
  expect(await failure(`amqp://127.0.0.1:${port}`)).toContain("nothing listens at this address");
  const shut = createTcpServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => shut.listen(port, "127.0.0.1", resolve));
  // A broker that restarts does the same, so it is not told for certain what listens there.
  const closed = await failure(`amqp://127.0.0.1:${port}`);
  expect(closed).toContain("the broker may be starting or stopping");
  expect(closed).toContain("may be something that does not speak AMQP");
  await new Promise((resolve) => shut.close(resolve));
});
