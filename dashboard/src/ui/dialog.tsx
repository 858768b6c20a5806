import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./button.tsx";

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** The buttons at the foot of the dialog. */
  readonly foot?: ComponentChildren;
  readonly kind?: "small" | "wide" | "palette";
  /** Whether the title is only for screen readers. */
  readonly isBare?: boolean;
  /** Called when the user presses Enter in a field, or the button of the type `submit`. */
  readonly onSubmit?: () => void;
}

/** A modal dialog, which keeps the keyboard focus until it is closed. */
export function Dialog(props: DialogProps) {
  const { title, onClose, children, foot, kind = "small", isBare = false, onSubmit } = props;
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dialog ${kind}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <form
        class="dialog-inside"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        {isBare ? null : (
          <header class="dialog-head">
            <h2>{title}</h2>
            <Button kind="bare" icon="close" label="Close" onClick={onClose} />
          </header>
        )}
        <div class="dialog-body">{children}</div>
        {foot === undefined ? null : <footer class="dialog-foot">{foot}</footer>}
      </form>
    </dialog>
  );
}
