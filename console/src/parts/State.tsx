import styles from './parts.module.css'

/** A state by shape, colour and word. */
export function State({ state, children }: { state: 'ok' | 'warn' | 'danger' | 'off'; children: string }) {
  return (
    <span className={styles.state} data-state={state}>
      <svg className={styles.mark} viewBox="0 0 10 10" aria-hidden="true" fill="currentColor">
        {state === 'ok' && <circle cx="5" cy="5" r="4.5" />}
        {state === 'warn' && <path d="M5 .5l5 9H0z" />}
        {state === 'danger' && <path d="M1 3l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z" />}
        {state === 'off' && <path d="M0 4h10v2H0z" />}
      </svg>
      {children}
    </span>
  )
}
