import { t } from '@lingui/core/macro'
import type { ReactNode } from 'react'
import type { OwnTrust } from '../api/hoster-queries.ts'
import { countText } from '../format/number-text.ts'
import { DataTable } from './DataTable.tsx'
import { State } from './State.tsx'

type Audit = Omit<OwnTrust['last_audits'][number], 'day'>

export const auditTexts = {
  meter: t`token report`,
  canary: t`known answer`,
  fingerprint: t`fingerprint`,
  agreement: t`agreement`,
  sampling: t`sampling`,
  shadow: t`comparison`,
} as const

/** Audits of a hoster. @param props.when when an audit was, as exactly as the reader may know it */
export function AuditTable<Row extends Audit>({
  audits,
  when,
}: {
  audits: readonly Row[]
  when: { title: string; cell: (audit: Row) => ReactNode }
}) {
  return (
    <DataTable
      label={t`Last audits`}
      rows={audits.map((audit, index) => ({ audit, index }))}
      keyOf={({ index }) => String(index)}
      columns={[
        { title: when.title, cell: ({ audit }) => when.cell(audit) },
        {
          title: t`Kind`,
          place: 'name',
          cell: ({ audit }) => auditTexts[audit.kind],
          sortBy: ({ audit }) => auditTexts[audit.kind],
        },
        { title: t`Model`, cell: ({ audit }) => audit.model, sortBy: ({ audit }) => audit.model },
        {
          title: t`Result`,
          place: 'figure',
          cell: ({ audit: { passed } }) =>
            passed === null ? (
              <State state="off">{t`not judged`}</State>
            ) : (
              <State state={passed ? 'ok' : 'danger'}>{passed ? t`passed` : t`failed`}</State>
            ),
        },
        {
          title: t`Figure`,
          align: 'right',
          cell: ({ audit }) => audit.statistic.toFixed(3),
          sortBy: ({ audit }) => audit.statistic,
        },
        {
          title: t`Sample`,
          align: 'right',
          cell: ({ audit }) => countText(audit.sample),
          sortBy: ({ audit }) => audit.sample,
        },
      ]}
    />
  )
}
