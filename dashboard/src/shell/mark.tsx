/** The logo of Rondo: a ring that is almost closed. */
export function Mark() {
  return (
    <svg class="mark" width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
      <circle
        cx="16"
        cy="16"
        r="11"
        fill="none"
        stroke="currentColor"
        stroke-width="5"
        stroke-dasharray="52 17"
        stroke-linecap="round"
        transform="rotate(-60 16 16)"
      />
      <circle cx="16" cy="16" r="3.5" fill="currentColor" />
    </svg>
  );
}
