import { t } from '@lingui/core/macro'

/** The names of the keys of the playground, and of what has no member, no label, or a label beyond the first 200 of a day. */
export const shareNames: Readonly<Record<string, string>> = {
  playground: t`Playground`,
  none: t`keys that no person made`,
  '(none)': t`without a label`,
  '(others)': t`further labels`,
}
