import { useState } from "preact/hooks";
import { change } from "../../api/client.ts";
import type { AlertRule } from "../../api/shapes.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { tell } from "../../ui/toast.tsx";

/** The causes of alerts, in words. */
export const CAUSES: Readonly<Record<AlertRule["when"], string>> = {
  "execution.failed": "an execution fails",
  "error.new": "an error is new",
  "queue.old": "a queue is older than 10 minutes",
  "node.died": "a node dies",
};

const URL_TARGET = "";

/** A dialog that makes a rule. */
export function RuleDialog({
  targets,
  onClose,
}: {
  /** The targets of the configuration file. */
  readonly targets: readonly string[];
  readonly onClose: () => void;
}) {
  const [id, setId] = useState("");
  const [when, setWhen] = useState<AlertRule["when"]>("execution.failed");
  const [workflow, setWorkflow] = useState("");
  const [minutes, setMinutes] = useState("10");
  const [target, setTarget] = useState(targets[0] ?? URL_TARGET);
  const [url, setUrl] = useState("");
  const save = async (): Promise<void> => {
    await change("POST", "/v1/alerts", {
      id: id.trim(),
      when,
      ...(workflow.trim() === "" || !hasWorkflow(when) ? {} : { workflow: workflow.trim() }),
      ...(when === "queue.old" ? { afterMs: Math.round(Number(minutes) * 60_000) } : {}),
      to: target === URL_TARGET ? url.trim() : target,
    });
    tell(`The rule ${id.trim()} is stored. Test it with its button.`);
  };
  return (
    <ActionDialog title="New rule" action="Save" onClose={onClose} run={save}>
      <label class="field">
        <span>Id</span>
        <input
          value={id}
          autoFocus
          placeholder="payments"
          onInput={(event) => setId(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>When</span>
        <select value={when} onChange={(event) => setWhen(event.currentTarget.value as AlertRule["when"])}>
          {Object.entries(CAUSES).map(([cause, text]) => (
            <option key={cause} value={cause}>
              {cause === "queue.old" ? "a queue is old" : text}
            </option>
          ))}
        </select>
      </label>
      {when === "queue.old" ? (
        <label class="field">
          <span>Minutes without a worker that takes work</span>
          <input
            type="number"
            min="1"
            value={minutes}
            onInput={(event) => setMinutes(event.currentTarget.value)}
          />
        </label>
      ) : null}
      {hasWorkflow(when) ? (
        <label class="field">
          <span>
            Workflow <span class="muted">optional: all if empty</span>
          </span>
          <input value={workflow} onInput={(event) => setWorkflow(event.currentTarget.value)} />
        </label>
      ) : null}
      <label class="field">
        <span>Send to</span>
        <select value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
          {targets.map((name) => (
            <option key={name} value={name}>
              {name} (configuration file)
            </option>
          ))}
          <option value={URL_TARGET}>a URL</option>
        </select>
      </label>
      {target === URL_TARGET ? (
        <label class="field">
          <span>URL</span>
          <input
            type="url"
            value={url}
            placeholder="https://hooks.example.com/rondo"
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        </label>
      ) : null}
    </ActionDialog>
  );
}

function hasWorkflow(when: AlertRule["when"]): boolean {
  return when === "execution.failed" || when === "error.new";
}
