import { useState } from "preact/hooks";
import { change, get, type Problem } from "../../api/client.ts";
import type { Page } from "../../api/shapes.ts";
import { asProblem, useLive } from "../../api/use-live.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Trouble } from "../../ui/state.tsx";
import { tell } from "../../ui/toast.tsx";

const START = {
  id: "",
  workflow: "",
  cron: "0 6 * * *",
  timeZone: "",
  input: "",
  misfire: "fireOnce",
  overlap: "allow",
};

/** A dialog that creates a schedule. */
export function ScheduleDialog({
  onClose,
  onDone,
}: {
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const [form, setForm] = useState({ ...START, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone });
  const [problem, setProblem] = useState<Problem | null>(null);
  const { data } = useLive("workflow names", (signal) =>
    get<Page<{ name: string }>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
  );
  const names = data?.data.map(({ name }) => name) ?? [];
  const workflow = form.workflow === "" ? (names[0] ?? "") : form.workflow;
  const set = (field: keyof typeof START, value: string): void => setForm({ ...form, [field]: value });
  const save = async (): Promise<void> => {
    try {
      const input: unknown = form.input.trim() === "" ? {} : JSON.parse(form.input);
      await change("POST", "/v1/schedules", { ...form, workflow, input });
      tell(`${form.id} fires from now on.`);
      onDone();
      onClose();
    } catch (thrown) {
      setProblem(asProblem(thrown));
    }
  };
  const text = (field: "id" | "cron" | "timeZone", label: string) => (
    <label class="field">
      <span>{label}</span>
      <input value={form[field]} onInput={(event) => set(field, event.currentTarget.value)} />
    </label>
  );
  const pick = (field: "misfire" | "overlap", label: string, options: readonly string[]) => (
    <label class="field">
      <span>{label}</span>
      <select value={form[field]} onChange={(event) => set(field, event.currentTarget.value)}>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </label>
  );
  return (
    <Dialog
      title="New schedule"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="main" onClick={() => void save()}>
            Save
          </Button>
        </>
      }
    >
      {text("id", "Id")}
      <label class="field">
        <span>Workflow</span>
        <select value={workflow} onChange={(event) => set("workflow", event.currentTarget.value)}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {text("cron", "Cron: minute, hour, day, month, weekday")}
      {text("timeZone", "Time zone")}
      <label class="field">
        <span>Input, as JSON</span>
        <textarea
          rows={3}
          placeholder="{}"
          value={form.input}
          onInput={(event) => set("input", event.currentTarget.value)}
        />
      </label>
      {pick("misfire", "When a due time was missed", ["fireOnce", "skip", "all"])}
      {pick("overlap", "While the last one still runs", ["allow", "skip", "queue"])}
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
