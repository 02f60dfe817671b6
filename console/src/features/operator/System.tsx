import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { systemQuery } from '../../api/operator-queries.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText, saidText } from '../../texts/code-text.ts'

const checkStates = { ok: 'ok', warning: 'warn', failed: 'danger' } as const

/** Checks, jobs and settings of the installation. */
export function System() {
  const system = useQuery(systemQuery)
  return (
    <Page title={t`System`}>
      <Loaded query={system} height={640}>
        {({ checks, jobs, settings, version }) => (
          <>
            <Panel title={t`Checks`} aside={t`version ${version}`}>
              <DataTable
                label={t`Checks`}
                rows={checks}
                keyOf={({ check }) => check}
                columns={[
                  {
                    title: t`Check`,
                    place: 'name',
                    cell: ({ check }) => codeText(check),
                    sortBy: ({ check }) => check,
                  },
                  {
                    title: t`State`,
                    place: 'figure',
                    cell: ({ state }) => <State state={checkStates[state]}>{codeText(state)}</State>,
                    sortBy: ({ state }) => state,
                  },
                  { title: t`Detail`, cell: ({ detail, detail_codes }) => saidText(detail, detail_codes) },
                ]}
              />
            </Panel>
            <Panel title={t`Jobs`}>
              <DataTable
                label={t`Jobs`}
                rows={jobs}
                keyOf={({ name }) => name}
                columns={[
                  { title: t`Job`, place: 'name', cell: ({ name }) => codeText(name), sortBy: ({ name }) => name },
                  {
                    title: t`Last run`,
                    cell: ({ last_run_at: at }) => (at === null ? '–' : <When at={at} form="distance" />),
                    sortBy: ({ last_run_at }) => last_run_at,
                  },
                  {
                    title: t`Waiting`,
                    align: 'right',
                    cell: ({ waiting }) => countText(waiting),
                    sortBy: ({ waiting }) => waiting,
                  },
                  {
                    title: t`Running`,
                    align: 'right',
                    cell: ({ running }) => countText(running),
                    sortBy: ({ running }) => running,
                  },
                  {
                    title: t`Given up`,
                    align: 'right',
                    cell: ({ failed, last_error }) => <span title={last_error ?? undefined}>{countText(failed)}</span>,
                    sortBy: ({ failed }) => failed,
                  },
                ]}
              />
            </Panel>
            <Panel title={t`Settings`}>
              <DataTable
                label={t`Settings`}
                rows={settings}
                keyOf={({ key }) => key}
                columns={[
                  { title: t`Setting`, place: 'name', cell: ({ key }) => <code>{key}</code>, sortBy: ({ key }) => key },
                  { title: t`Value`, cell: ({ value }) => <code>{value}</code> },
                ]}
              />
            </Panel>
          </>
        )}
      </Loaded>
    </Page>
  )
}
