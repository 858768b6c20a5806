/** The address of an AMQP broker, and the explanation of a failed connection. */

/** Whether a text is the URL of a broker: `amqp://` or `amqps://` with a host. */
export function isBrokerUrl(text: unknown): boolean {
  if (typeof text !== "string" || !URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return (protocol === "amqp:" || protocol === "amqps:") && hostname !== "";
}

/** The URL of a broker without user and password. */
export function showBroker(url: string): string {
  const { protocol, hostname, port, pathname } = new URL(url);
  const usual = protocol === "amqps:" ? "5671" : "5672";
  return `${protocol}//${hostname}:${port === "" ? usual : port}${pathname === "/" ? "" : pathname}`;
}

/** Explains why a connection failed, with the address and a hint. */
export function whyNoConnection(url: string, thrown: unknown): string {
  const { message = String(thrown), code } = thrown as { message?: string; code?: unknown };
  const { pathname, username } = new URL(url);
  const vhost = pathname.length > 1 ? decodeURIComponent(pathname.slice(1)) : "/";
  const user = username === "" ? "guest" : decodeURIComponent(username);
  return `no connection to the broker at ${showBroker(url)}: ${explain({ message, code, vhost, user })}`;
}

function explain(at: { message: string; code: unknown; vhost: string; user: string }): string {
  const { message, code, vhost, user } = at;
  if (code === "ECONNREFUSED")
    return "nothing listens at this address; check that RabbitMQ runs, and the port";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `the host name is not known (${message})`;
  // RabbitMQ closes the connection at the point where the client expects it to open the virtual host.
  if (/ConnectionOpenOk/.test(message))
    return (
      `the virtual host "${vhost}" does not exist, or the user "${user}" may not use it; ` +
      "check the path of the address, rabbitmqctl list_vhosts and rabbitmqctl list_permissions"
    );
  if (/ACCESS[-_]REFUSED|403/.test(message))
    return `the user "${user}" was refused; check user and password (${message})`;
  // A broker that is starting or stopping closes the socket too.
  if (/Socket closed abruptly|ECONNRESET/.test(`${message} ${String(code)}`))
    return (
      "the server closed the connection before it was open: the broker may be starting or stopping, or it may be " +
      `something that does not speak AMQP; if this goes on, check the port: 5672, and 5671 with TLS (${message})`
    );
  if (/frame|Expected ConnectionStart|Protocol/i.test(message))
    return `the server there does not speak AMQP; check the port: 5672, and 5671 with TLS (${message})`;
  return message === "" ? "no reason is known" : message;
}
