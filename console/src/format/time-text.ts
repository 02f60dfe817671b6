import { t } from '@lingui/core/macro'
import { formatLocale } from '../texts/i18n.ts'

/** The zone of the reader, such as Europe/Berlin. */
export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone

// 24 hours in each language: columns of times stay narrow, and are compared with logs.
const timeOf = (fields: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat(formatLocale, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...fields })
const dayOf = (fields: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat(formatLocale, { day: 'numeric', month: 'short', ...fields })

const clock = timeOf({ second: '2-digit' })
const minute = timeOf({})
const day = dayOf({})
const dayOfYear = dayOf({ year: 'numeric' })
const utcDay = dayOf({ timeZone: 'UTC' })
const utcMonth = new Intl.DateTimeFormat(formatLocale, { month: 'short', year: 'numeric', timeZone: 'UTC' })
const relative = new Intl.RelativeTimeFormat(formatLocale, { numeric: 'auto' })

/** Local time: 14:02:11 today, 21 Nov 14:02 this year, 21 Nov 2025 before. */
export function timeText(at: Date, now = new Date()): string {
  if (at.toDateString() === now.toDateString()) return clock.format(at)
  if (at.getFullYear() === now.getFullYear()) return `${day.format(at)} ${minute.format(at)}`
  return dayOfYear.format(at)
}

/** Local time with its day: 21 Nov 14:02:11 this year, 21 Nov 2025 14:02:11 before. */
export function dateText(at: Date, now = new Date()): string {
  return `${dayText(at, now)} ${clock.format(at)}`
}

/** 21 Nov, or 21 Nov 2025 in another year. */
export function dayText(at: Date, now = new Date()): string {
  return at.getFullYear() === now.getFullYear() ? day.format(at) : dayOfYear.format(at)
}

/** Local hour and minute, such as 14:02. */
export function minuteText(at: Date): string {
  return minute.format(at)
}

/** UTC to the second: 2026-11-21 14:02:11 UTC. */
export function utcText(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** A UTC day of a report, such as 2026-11-21, as 21 Nov. */
export function utcDayText(date: string): string {
  return utcDay.format(new Date(date))
}

/** The month of a UTC day, such as Nov 2026. */
export function utcMonthText(date: string): string {
  return utcMonth.format(new Date(date))
}

/** "just now", "5 minutes ago", "yesterday", "in 3 days". */
export function distanceText(at: Date, now = new Date()): string {
  const seconds = (at.getTime() - now.getTime()) / 1_000
  const size = Math.abs(seconds)
  if (size < 45) return t`just now`
  if (size < 2_700) return relative.format(Math.round(seconds / 60), 'minute')
  if (size < 79_200) return relative.format(Math.round(seconds / 3_600), 'hour')
  return relative.format(Math.round(seconds / 86_400), 'day')
}
