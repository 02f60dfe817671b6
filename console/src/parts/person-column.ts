import { t } from '@lingui/core/macro'
import type { Column } from './DataTable.tsx'

interface ListedPerson {
  readonly name: string
  readonly email: string
  readonly is_you?: boolean
}

/** The first column of a table of people: the name, the address, and whether it is the reader. */
export const personColumn: Column<ListedPerson> = {
  title: t`Person`,
  place: 'name',
  cell: ({ name, email, is_you = false }) => `${[name, email].filter(Boolean).join(', ')}${is_you ? t` (you)` : ''}`,
  sortBy: ({ name, email }) => name || email,
}
