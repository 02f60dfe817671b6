import { t } from '@lingui/core/macro'
import { SegmentedControl } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type DaysSearch, daySpans } from './days-search.ts'

/** The span in the address, 30 days by default. */
export function useDays(): number {
  const { days = 30 }: DaysSearch = useSearch({ strict: false })
  return days
}

/** Chooses the span of a report. It is part of the address. */
export function DayChoice() {
  const navigate = useNavigate()
  return (
    <SegmentedControl
      aria-label={t`Span`}
      data={daySpans.map(days => ({ value: String(days), label: days === 365 ? t`1y` : t`${days}d` }))}
      value={String(useDays())}
      onChange={days => void navigate({ to: '.', search: { days: Number(days) } })}
    />
  )
}
