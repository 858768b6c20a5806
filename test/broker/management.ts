/** RabbitMQ's management over HTTP: vhosts, and what is there in one. */

/** A queue as the management shows it. */
export interface QueueShown {
  readonly name: string;
  readonly type: string;
  readonly messages: number;
  readonly messagesUnacknowledged: number;
  readonly consumers: number;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export class Management {
  /** With the user and password in it. */
  readonly url: string;
  readonly #base: string;
  readonly #authorization: string;

  constructor(url: string) {
    this.url = url;
    const at = new URL(url);
    this.#base = `${at.protocol}//${at.host}`;
    const user = `${decodeURIComponent(at.username)}:${decodeURIComponent(at.password)}`;
    this.#authorization = `Basic ${Buffer.from(user).toString("base64")}`;
  }

  async isUp(): Promise<boolean> {
    try {
      await this.ask("GET", "/overview");
      return true;
    } catch (error) {
      if (error instanceof Error) return false;
      throw error;
    }
  }

  async makeVhost(name: string): Promise<void> {
    await this.ask("PUT", `/vhosts/${encodeURIComponent(name)}`, {});
    const user = decodeURIComponent(new URL(this.url).username);
    const all = { configure: ".*", write: ".*", read: ".*" };
    await this.ask("PUT", `/permissions/${encodeURIComponent(name)}/${encodeURIComponent(user)}`, all);
  }

  async removeVhost(name: string): Promise<void> {
    await this.ask("DELETE", `/vhosts/${encodeURIComponent(name)}`);
  }

  /** Counts are a second old at most; what queues there are is true now. */
  async queues(vhost: string): Promise<readonly QueueShown[]> {
    const rows = (await this.ask("GET", `/queues/${encodeURIComponent(vhost)}`)) as Record<string, unknown>[];
    return rows.map((row) => ({
      name: String(row["name"]),
      type: String(row["type"]),
      messages: Number(row["messages"] ?? 0),
      messagesUnacknowledged: Number(row["messages_unacknowledged"] ?? 0),
      consumers: Number(row["consumers"] ?? 0),
      arguments: (row["arguments"] ?? {}) as Record<string, unknown>,
    }));
  }

  /** The names of the exchanges that somebody declared. */
  async exchanges(vhost: string): Promise<readonly string[]> {
    const rows = (await this.ask("GET", `/exchanges/${encodeURIComponent(vhost)}`)) as { name: string }[];
    return rows.map(({ name }) => name).filter((name) => name !== "" && !name.startsWith("amq."));
  }

  /** Cuts every connection into the vhost, as an administrator does; answers how many. */
  async closeConnections(vhost: string): Promise<number> {
    const path = `/vhosts/${encodeURIComponent(vhost)}/connections`;
    const rows = (await this.ask("GET", path)) as { name: string }[];
    for (const { name } of rows) await this.ask("DELETE", `/connections/${encodeURIComponent(name)}`);
    return rows.length;
  }

  /** Null: there is no such thing any more. */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${this.#base}/api${path}`, {
      method,
      headers: { authorization: this.#authorization, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (answer.status === 404 && method === "DELETE") return null;
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }
}
