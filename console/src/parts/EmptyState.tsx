import type { ReactNode } from 'react'
import styles from './parts.module.css'

/** What a list shows without entries: one sentence and the next action. */
export function EmptyState({ text, children }: { text: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <p>{text}</p>
      {children}
    </div>
  )
}
