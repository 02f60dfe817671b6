import { type ReactNode, useEffect, useRef } from 'react'
import styles from './parts.module.css'

/**
 * A screen: its title, its actions and its blocks. The title gets the focus, so that screen readers announce the
 * screen.
 */
export function Page({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} – Switchyard`
    heading.current?.focus({ preventScroll: true })
  }, [title])
  return (
    <div className={styles.page}>
      <header className={styles.pageHead}>
        <h1 className={styles.pageTitle} ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  )
}
