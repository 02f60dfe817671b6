import { t } from '@lingui/core/macro'
import { Link } from '@tanstack/react-router'
import { DataTable } from '../../parts/DataTable.tsx'
import { State } from '../../parts/State.tsx'
import type { HosterMembership } from '../../shell/use-hoster.ts'
import { codeText } from '../../texts/code-text.ts'
import { hosterStates } from './hoster-state.ts'

/** The hosters of the person. */
export function HosterLinks({ hosters }: { hosters: readonly HosterMembership[] }) {
  return (
    <DataTable
      label={t`Your hosters`}
      rows={hosters}
      keyOf={({ id }) => id}
      columns={[
        {
          title: t`Hoster`,
          place: 'name',
          cell: ({ id, name }) => (
            <Link to="/h/$hosterId" params={{ hosterId: id }}>
              {name}
            </Link>
          ),
          sortBy: ({ name }) => name,
        },
        {
          title: t`State`,
          cell: ({ state }) => <State state={hosterStates[state].mark}>{codeText(state)}</State>,
          sortBy: ({ state }) => state,
        },
        { title: t`Your role`, cell: ({ role }) => codeText(role), sortBy: ({ role }) => role },
      ]}
    />
  )
}
