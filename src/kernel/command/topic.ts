/** Topics: where commands go and receipts come from, and how those who serve them are named. */

const TOPIC_USE = "topic:";

/** The wire name under which workers serve a topic. */
export function topicUse(topic: string): string {
  return `${TOPIC_USE}${topic}`;
}

/** The topic that such a name stands for; null: it is the name of a handler. */
export function topicOf(use: string): string | null {
  return use.startsWith(TOPIC_USE) ? use.slice(TOPIC_USE.length) : null;
}

/** The topic on which the receipts of a topic's commands come. */
export function receiptTopicOf(topic: string): string {
  const segments = topic.split("_");
  const at = segments.indexOf("CMD");
  return at < 0 ? `${topic}_RECEIPT` : segments.with(at, "RECEIPT").join("_");
}
