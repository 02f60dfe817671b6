import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import styles from './parts.module.css'

/**
 * The filters of a list. On a phone they are behind a button that says how many are set, so that the list begins on the
 * first screen.
 *
 * @param props.set how many filters are set
 * @param props.className lays the filters out
 */
export function Filters({
  set,
  className,
  children,
}: {
  set: number
  className: string | undefined
  children: ReactNode
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <div className={styles.filters} data-open={isOpen}>
      <Button
        variant="default"
        className={styles.filtersButton}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {set === 0 ? t`Filters` : t`Filters (${set})`}
      </Button>
      <section className={className} aria-label={t`Filters`}>
        {children}
      </section>
    </div>
  )
}
