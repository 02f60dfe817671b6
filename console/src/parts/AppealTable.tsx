import { t } from '@lingui/core/macro'
import type { OwnTrust } from '../api/hoster-queries.ts'
import { DataTable } from './DataTable.tsx'
import { State } from './State.tsx'
import { When } from './When.tsx'

/**
 * The appeals of a hoster and their answers.
 *
 * @param props.waits how an appeal without an answer reads
 */
export function AppealTable({ appeals, waits }: { appeals: OwnTrust['appeals']; waits: string }) {
  return (
    <DataTable
      label={t`Appeals`}
      rows={appeals}
      keyOf={({ at }) => at}
      columns={[
        { title: t`Time`, cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
        { title: t`Appeal`, place: 'name', cell: ({ text }) => text },
        { title: t`Answer`, cell: ({ answer }) => answer ?? <State state="warn">{waits}</State> },
      ]}
    />
  )
}
