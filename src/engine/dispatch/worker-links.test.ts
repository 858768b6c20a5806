import { expect, test } from "vitest";
import type { Serves } from "../../protocol/work.ts";
import type { WorkerLink } from "../driver-options.ts";
import { WorkerLinks } from "./worker-links.ts";

function link(heard: string[] = []): WorkerLink {
  return {
    accept: () => {},
    cancel: () => {},
    joined: (serves: readonly Serves[]) => void heard.push(serves.map(({ use }) => use).join()),
  };
}

test("a worker that queues learns what others serve, whether they join before it or after it, and only once", () => {
  const heard: string[] = [];
  const links = new WorkerLinks();
  const broker = link(heard);
  links.add("gone", link(), [{ use: "gone" }]);
  links.remove("gone");
  links.add("before", link(), [{ use: "a" }, { use: "b" }]);
  links.add("broker", broker, []);
  links.add("after", link(), [{ use: "c" }]);
  links.add("broker", broker, [{ use: "d" }]);
  expect(heard).toEqual(["a,b", "c"]);
});
