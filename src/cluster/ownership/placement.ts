import { assert } from "../../std/assert.ts";
import { hashText } from "../../std/random.ts";

/**
 * Which node each partition belongs to, by rendezvous hashing: the one with the highest score for it. So whoever joins
 * gets its share from all others, whoever leaves gives its own to all others, and nothing else moves. Every version
 * of Rondo must answer the same: nodes that disagree leave partitions to each other.
 */
export function placement(partitions: number, urls: Iterable<string>): readonly string[] {
  const nodes = [...new Set(urls)].sort();
  assert(nodes.length > 0, "there is a node to place partitions on");
  return Array.from({ length: partitions }, (_, partition) => bestFor(partition, nodes));
}

/** Equal scores go to the first. */
function bestFor(partition: number, nodes: readonly string[]): string {
  let best = "";
  let bestScore = -1;
  for (const url of nodes) {
    const score = hashText(`${url} ${partition}`);
    if (score <= bestScore) continue;
    best = url;
    bestScore = score;
  }
  return best;
}
