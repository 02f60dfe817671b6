import { t } from '@lingui/core/macro'
import { type ReactNode, useEffect, useRef } from 'react'
import { timeZone } from '../format/time-text.ts'
import styles from './parts.module.css'

/** How times on a page are meant. */
const zoneText = ['UTC', 'Etc/UTC'].includes(timeZone)
  ? t`Times are in UTC.`
  : t`Times are in the zone ${timeZone}. UTC appears on hover.`

/** The build draws frames in a zone of its own. */
const isBuilding = typeof document === 'undefined'

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
      {!isBuilding && <p className={styles.zone}>{zoneText}</p>}
    </div>
  )
}
