/** One vhost at a broker, for one test or one file of tests, and proxies in front of it whose connections are cut. */
import { randomUUID } from "node:crypto";
import { type ChannelModel, connect } from "amqplib";
import { ByteProxy } from "../faults/byte-proxy.ts";
import type { Management, QueueShown } from "./management.ts";

export class TestBroker {
  /** Of the vhost. */
  readonly url: string;
  readonly vhost: string;
  readonly management: Management;
  readonly #proxies: ByteProxy[] = [];

  private constructor(url: string, vhost: string, management: Management) {
    this.url = url;
    this.vhost = vhost;
    this.management = management;
  }

  /** A vhost that nobody else uses, at the server of this URL. */
  static async open(serverUrl: string, management: Management): Promise<TestBroker> {
    const vhost = `rondo-test-${randomUUID().slice(0, 13)}`;
    await management.makeVhost(vhost);
    const url = new URL(serverUrl);
    url.pathname = `/${vhost}`;
    return new TestBroker(url.href, vhost, management);
  }

  async connect(): Promise<ChannelModel> {
    const connection = await connect(this.url);
    // What goes wrong is thrown by the call that meets it.
    connection.on("error", () => {});
    return connection;
  }

  /** An address of the vhost whose connections `cut()` breaks; gone with the vhost. */
  async proxy(): Promise<{ readonly url: string; cut(): void; readonly proxy: ByteProxy }> {
    const proxy = await ByteProxy.start(this.url);
    this.#proxies.push(proxy);
    const url = new URL(this.url);
    url.hostname = "127.0.0.1";
    url.port = new URL(proxy.url).port;
    return { url: url.href, cut: () => proxy.cut(), proxy };
  }

  queues(): Promise<readonly QueueShown[]> {
    return this.management.queues(this.vhost);
  }

  async remove(): Promise<void> {
    for (const proxy of this.#proxies) proxy.close();
    await this.management.removeVhost(this.vhost);
  }
}
