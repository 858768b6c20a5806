import { useState } from "preact/hooks";
import { ActionDialog } from "./action-dialog.tsx";

/** Asks before an action is done, and for its reason, which is stored in the audit log. */
export function ReasonDialog(props: {
  readonly title: string;
  /** What will happen. */
  readonly text: string;
  /** The text of the button that does it. */
  readonly action: string;
  readonly isDanger?: boolean;
  /** Whether a reason can be given. */
  readonly hasReason?: boolean;
  readonly onClose: () => void;
  readonly run: (reason: string | undefined) => Promise<void>;
}) {
  const { text, hasReason = true, run, ...rest } = props;
  const [reason, setReason] = useState("");
  return (
    <ActionDialog {...rest} run={() => run(reason.trim() === "" ? undefined : reason.trim())}>
      <p>{text}</p>
      {hasReason ? <ReasonField reason={reason} onWrite={setReason} isFirst /> : null}
    </ActionDialog>
  );
}

/** The field for the reason of a change. */
export function ReasonField({
  reason,
  onWrite,
  isFirst = false,
}: {
  readonly reason: string;
  readonly onWrite: (reason: string) => void;
  /** Whether the field has the keyboard focus at first. */
  readonly isFirst?: boolean;
}) {
  return (
    <label class="field">
      <span>
        Reason <span class="muted">optional, stored in the audit log</span>
      </span>
      <input
        value={reason}
        maxLength={500}
        autoFocus={isFirst}
        onInput={(event) => onWrite(event.currentTarget.value)}
      />
    </label>
  );
}
