import { type ReactNode, useId } from 'react'
import styles from './parts.module.css'

/** A titled block of a screen. */
export function Panel({ title, aside, children }: { title?: ReactNode; aside?: ReactNode; children: ReactNode }) {
  const id = useId()
  return (
    <section className={styles.panel} {...(title !== undefined && { 'aria-labelledby': id })}>
      {(title !== undefined || (aside !== undefined && aside !== false)) && (
        <div className={styles.panelHead}>
          {title !== undefined && (
            <h2 className={styles.panelTitle} id={id}>
              {title}
            </h2>
          )}
          {aside}
        </div>
      )}
      {children}
    </section>
  )
}
