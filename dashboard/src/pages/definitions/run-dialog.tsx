import { useState } from "preact/hooks";
import { change, type Problem } from "../../api/client.ts";
import type { Execution, Workflow } from "../../api/shapes.ts";
import { asProblem } from "../../api/use-live.ts";
import { go } from "../../core/router.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Trouble } from "../../ui/state.tsx";
import { defaultsOf, fieldsOf, readFields, SchemaForm, type Written } from "./schema-form.tsx";

/** A dialog that starts an execution: with fields if the input's schema describes an object, else with JSON. */
export function RunDialog({
  workflow,
  onClose,
}: {
  readonly workflow: Workflow;
  readonly onClose: () => void;
}) {
  const schema = workflow.definition.input;
  const hasFields = fieldsOf(schema) !== null;
  const [isJson, setIsJson] = useState(!hasFields);
  const [written, setWritten] = useState<Written>(defaultsOf(schema));
  const [text, setText] = useState("{}");
  const [id, setId] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const run = async (): Promise<void> => {
    try {
      const input: unknown = isJson ? JSON.parse(text) : readFields(schema, written);
      const started = await change<Execution>("POST", "/v1/executions", {
        workflow: workflow.name,
        input,
        ...(id === "" ? {} : { id }),
      });
      onClose();
      go(`/executions/${encodeURIComponent(started.id)}`);
    } catch (thrown) {
      setProblem(asProblem(thrown));
    }
  };
  return (
    <Dialog
      title={`Run ${workflow.name}`}
      onClose={onClose}
      foot={
        <>
          {hasFields ? (
            <Button onClick={() => setIsJson(!isJson)}>{isJson ? "As a form" : "As JSON"}</Button>
          ) : null}
          <Button kind="main" icon="play" onClick={() => void run()}>
            Run
          </Button>
        </>
      }
    >
      {isJson ? (
        <label class="field">
          <span>Input, as JSON</span>
          <textarea rows={8} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      ) : (
        <SchemaForm schema={schema} written={written} onWrite={setWritten} />
      )}
      <label class="field">
        <span>
          Id <span class="muted">is made up if left out</span>
        </span>
        <input value={id} onInput={(event) => setId(event.currentTarget.value)} />
      </label>
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
