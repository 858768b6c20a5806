import { useState } from "preact/hooks";
import { change, type Problem } from "../../api/client.ts";
import { asProblem } from "../../api/use-live.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Trouble } from "../../ui/state.tsx";
import { tell } from "../../ui/toast.tsx";

/** A dialog that sends a signal with data. */
export function SignalDialog(props: {
  readonly path: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const { path, onClose, onDone } = props;
  const [name, setName] = useState("approved");
  const [data, setData] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const send = async (): Promise<void> => {
    try {
      const parsed: unknown = data.trim() === "" ? undefined : JSON.parse(data);
      await change("POST", `${path}/signals`, { name, ...(parsed === undefined ? {} : { data: parsed }) });
      tell(`Signal “${name}” is stored.`);
      onDone();
      onClose();
    } catch (thrown) {
      setProblem(asProblem(thrown));
    }
  };
  return (
    <Dialog
      title="Send a signal"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="main" onClick={() => void send()}>
            Send
          </Button>
        </>
      }
    >
      <label class="field">
        <span>Name</span>
        <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Data, as JSON</span>
        <textarea
          rows={4}
          placeholder='{ "by": "jo" }'
          value={data}
          onInput={(event) => setData(event.currentTarget.value)}
        />
      </label>
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
