/** Rules of alerts and the alerts that they cause. */
import { type Decode, KEPT, number, object, oneOf, optional, orNull, string } from "../../std/decode.ts";
import { type DocumentForm, jsonForm } from "../../store/document-form.ts";

/** The causes of alerts. */
export const ALERT_CAUSES = ["execution.failed", "error.new", "queue.old", "node.died"] as const;
export type AlertCause = (typeof ALERT_CAUSES)[number];

/** A rule: what causes an alert, and where it goes. */
export interface AlertRule {
  readonly id: string;
  readonly when: AlertCause;
  /** If given, the rule applies only to this workflow. */
  readonly workflow?: string | undefined;
  /** If given, the rule applies only to this project. */
  readonly project?: string | undefined;
  /** For `queue.old`: how long no worker has taken work. */
  readonly afterMs?: number | undefined;
  /** The name of a target of the configuration file, or a URL. */
  readonly to: string;
  /** When the rule was made. Failures and other causes before this time raise no alert. */
  readonly createdAt: number;
}

/** The cause of an alert. The key is the same at every node, and whenever the same cause is found again. */
export interface Happening {
  readonly key: string;
  readonly at: number;
  readonly text: string;
  /** The page of the dashboard that shows the cause. */
  readonly page: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An alert as stored: `open` until its target has accepted it, or every try has failed. */
export interface StoredAlert extends Happening {
  readonly rule: string;
  readonly when: AlertCause;
  readonly to: string;
  readonly state: "open" | "sent" | "failed";
  readonly tries: number;
  /** When the next try is due. A node that begins a try moves this time ahead, so that another node tries only if the first one dies. */
  readonly dueAt: number;
  readonly sentAt: number | null;
  readonly error: string | null;
}

export const RULE_KIND = "alert-rule";
export const ALERT_KIND = "alert";

const cause = oneOf(ALERT_CAUSES);

export const ruleForm: DocumentForm<AlertRule> = jsonForm(
  RULE_KIND,
  object(
    {
      ...{ id: string, when: cause, workflow: optional(string), project: optional(string) },
      ...{ afterMs: optional(number), to: string, createdAt: number },
    },
    KEPT,
  ),
);

export const alertForm: DocumentForm<StoredAlert> = jsonForm(
  ALERT_KIND,
  object(
    {
      ...{ rule: string, when: cause, to: string, key: string, at: number, text: string, page: string },
      ...{ state: oneOf(["open", "sent", "failed"]), tries: number, dueAt: number },
      ...{ sentAt: orNull(number), error: orNull(string) },
    },
    KEPT,
  ) as Decode<StoredAlert>,
);
