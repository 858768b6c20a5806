/** Decodes the setting `alerts`: targets (webhooks, and commands of this machine) and rules. */
import { type Decode, listOf, mapOf, object, oneOf, optional, text, Undecodable } from "../std/decode.ts";
import { durationFrom, filledText, httpUrl, settingName } from "./setting.ts";

/** A target of alerts: a URL that gets a signed POST, or a program that gets the alert on its standard input. */
export interface AlertTargetGiven {
  readonly url?: string;
  readonly command?: readonly string[];
}

/** A rule of the configuration file. */
export interface AlertRuleGiven {
  readonly id: string;
  readonly when: "execution.failed" | "error.new" | "queue.old" | "node.died";
  readonly workflow?: string;
  readonly project?: string;
  /** For `queue.old`: how long no worker may have taken work from a queue before the alert is sent. */
  readonly after?: number;
  /** The name of a target, or a URL. */
  readonly to: string;
}

export interface AlertsGiven {
  readonly targets?: Readonly<Record<string, AlertTargetGiven>>;
  readonly rules?: readonly AlertRuleGiven[];
}

const target = object({ url: optional(httpUrl), command: optional(listOf(filledText, { min: 1, max: 50 })) });
const rule = object({
  id: settingName,
  when: oneOf(["execution.failed", "error.new", "queue.old", "node.died"]),
  workflow: optional(text({ min: 1, max: 100, what: "a name" })),
  project: optional(text({ min: 1, max: 100, what: "a name" })),
  after: optional(durationFrom(1_000)),
  to: text({ min: 1, max: 2_000, what: "the name of a target, or a URL" }),
});
const given = object({
  targets: optional(mapOf(target, { key: settingName })),
  rules: optional(listOf(rule, { max: 100 })),
});

export const alerts: Decode<AlertsGiven> = (value) => {
  const read = given(value) as AlertsGiven;
  for (const [name, { url, command }] of Object.entries(read.targets ?? {}))
    if ((url === undefined) === (command === undefined))
      throw new Undecodable(`targets.${name} has neither or both of "url" and "command"`, {
        hint: 'write { "url": "https://..." } or { "command": ["/usr/bin/page", "ops"] }',
      });
  for (const { id, to } of read.rules ?? [])
    if (!/^https?:/.test(to) && read.targets?.[to] === undefined)
      throw new Undecodable(`the rule "${id}" has the target "${to}", which does not exist`, {
        hint: "name a target of `targets`, or write a URL",
      });
  return read;
};
