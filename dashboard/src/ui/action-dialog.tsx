import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../api/client.ts";
import { asProblem, reloadAll } from "../api/use-live.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import type { IconName } from "./icon.tsx";
import { Trouble } from "./state.tsx";

/** A dialog that does one thing: it shows why that failed, and closes when it is done. */
export function ActionDialog(props: {
  readonly title: string;
  /** The text of the button that does it. */
  readonly action: string;
  readonly icon?: IconName;
  readonly isDanger?: boolean;
  /** Why it cannot be done now. */
  readonly whyNot?: string | null;
  /** Whether the dialog still finds out what it would do. */
  readonly isBusy?: boolean;
  /** A problem that was found before anything was done. */
  readonly problem?: Problem | null;
  /** Another button, beside the one that does it. */
  readonly other?: ComponentChildren;
  readonly onClose: () => void;
  readonly run: () => Promise<void>;
  /** Whether the content shows a problem at one of its fields: then it is not shown again below them. */
  readonly isAtField?: (problem: Problem) => boolean;
  /** The content; forms show the problem at their fields. */
  readonly children: ComponentChildren | ((problem: Problem | null) => ComponentChildren);
}) {
  const { title, action, icon, isDanger = false, whyNot, other, onClose, run, children } = props;
  const [failure, setFailure] = useState<Problem | null>(null);
  const [isRunning, setIsRunning] = useState(false);
  const problem = failure ?? props.problem ?? null;
  const send = async (): Promise<void> => {
    setIsRunning(true);
    try {
      await run();
      reloadAll();
      onClose();
    } catch (thrown) {
      setFailure(asProblem(thrown));
      setIsRunning(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void (isRunning ? undefined : send())}
      foot={
        <>
          {other ?? <Button onClick={onClose}>Close</Button>}
          <Button
            kind={isDanger ? "danger" : "main"}
            type="submit"
            {...(icon === undefined ? {} : { icon })}
            whyNot={whyNot}
            isBusy={isRunning || props.isBusy === true}
          >
            {action}
          </Button>
        </>
      }
    >
      {typeof children === "function" ? children(problem) : children}
      {problem === null || props.isAtField?.(problem) === true ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}
