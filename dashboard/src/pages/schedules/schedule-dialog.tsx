import { useState } from "preact/hooks";
import { change, get } from "../../api/client.ts";
import type { Page, Schedule } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { parseTyped } from "../../ui/json.tsx";
import { tell } from "../../ui/toast.tsx";
import { cronWords } from "./cron-words.ts";

const START = {
  id: "",
  workflow: "",
  cron: "0 6 * * *",
  timeZone: "",
  input: "",
  misfire: "fireOnce",
  overlap: "allow",
};

const MISSED = {
  fireOnce: "start once, late",
  skip: "skip them",
  all: "start once for each",
};
const OVERLAPS = {
  allow: "start beside it",
  skip: "skip the due time",
  queue: "start when it has ended",
};

/** A dialog that creates a schedule, or changes one. */
export function ScheduleDialog({
  schedule,
  onClose,
  onDone,
}: {
  /** The schedule to change; missing for a new one. */
  readonly schedule?: Schedule;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const [form, setForm] = useState(() => formOf(schedule));
  const { data } = useLive("workflow names", (signal) =>
    get<Page<{ name: string }>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
  );
  const names = data?.data.map(({ name }) => name) ?? [];
  const workflow = form.workflow === "" ? (names[0] ?? "") : form.workflow;
  const set = (field: keyof typeof START, value: string): void => setForm({ ...form, [field]: value });
  const save = async (): Promise<void> => {
    const input = parseTyped(form.input, "Input") ?? {};
    const kept = schedule === undefined ? {} : { project: schedule.project, tags: schedule["tags"] };
    await change("POST", "/v1/schedules", { ...kept, ...form, workflow, input });
    tell(schedule === undefined ? `${form.id} is created.` : `${form.id} is changed.`);
    onDone();
  };
  const text = (field: "id" | "cron" | "timeZone", label: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        autoFocus={field === "id"}
        value={form[field]}
        onInput={(event) => set(field, event.currentTarget.value)}
      />
    </label>
  );
  const pick = (field: "misfire" | "overlap", label: string, options: Readonly<Record<string, string>>) => (
    <label class="field">
      <span>{label}</span>
      <select value={form[field]} onChange={(event) => set(field, event.currentTarget.value)}>
        {Object.entries(options).map(([option, words]) => (
          <option key={option} value={option}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <ActionDialog
      title={schedule === undefined ? "New schedule" : `Edit ${schedule.id}`}
      action="Save"
      onClose={onClose}
      run={save}
    >
      {schedule === undefined ? text("id", "Id") : null}
      <label class="field">
        <span>Workflow</span>
        <select value={workflow} onChange={(event) => set("workflow", event.currentTarget.value)}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {text("cron", "Cron: minute, hour, day, month, weekday")}
      <p class="muted">{cronWords(form.cron)}</p>
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
      {pick("misfire", "Due times that were missed", MISSED)}
      {pick("overlap", "While the previous run is open", OVERLAPS)}
    </ActionDialog>
  );
}

function formOf(schedule: Schedule | undefined): typeof START {
  if (schedule === undefined) return { ...START, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone };
  const { id, workflow, cron, timeZone, misfire, overlap } = schedule;
  return { id, workflow, cron, timeZone, misfire, overlap, input: JSON.stringify(schedule.input, null, 2) };
}
