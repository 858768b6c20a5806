import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon.tsx";

export interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly onClick?: (() => void) | undefined;
  readonly icon?: IconName;
  readonly kind?: "plain" | "main" | "danger" | "bare";
  /** Why the button cannot be used now; it is then shown, but does nothing. */
  readonly whyNot?: string | null | undefined;
  readonly label?: string;
  readonly keys?: string;
  readonly isPressed?: boolean;
  readonly isBusy?: boolean;
  readonly type?: "button" | "submit";
}

/** A button. A disabled button can still be focused, and tells why it is disabled. */
export function Button(props: ButtonProps) {
  const { children, onClick, icon, kind = "plain", whyNot, label, keys, isPressed, isBusy, type } = props;
  const isOff = (whyNot !== null && whyNot !== undefined) || isBusy === true;
  return (
    <button
      type={type ?? "button"}
      class={`button ${kind}${children === undefined ? " icon-only" : ""}`}
      aria-disabled={isOff ? "true" : undefined}
      aria-pressed={isPressed}
      aria-label={label}
      title={whyNot ?? (keys === undefined ? label : `${label ?? ""} (${keys})`.trim())}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.();
      }}
    >
      {icon === undefined ? null : <Icon name={icon} size={14} />}
      {children === undefined ? null : <span>{children}</span>}
    </button>
  );
}
