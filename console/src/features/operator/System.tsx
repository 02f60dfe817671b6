import { useQuery } from '@tanstack/react-query'
import { systemQuery } from '../../api/operator-queries.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'

const checkStates = { ok: 'ok', warning: 'warn', failed: 'danger' } as const

/** Checks, jobs and settings of the installation. */
export function System() {
  const system = useQuery(systemQuery)
  return (
    <Page title="System">
      <Loaded query={system} height={640}>
        {({ checks, jobs, settings, version }) => (
          <>
            <Panel title="Checks" aside={`version ${version}`}>
              <DataTable
                label="Checks"
                rows={checks}
                keyOf={({ check }) => check}
                columns={[
                  { title: 'Check', place: 'name', cell: ({ check }) => check },
                  {
                    title: 'State',
                    place: 'figure',
                    isLabelled: true,
                    cell: ({ state }) => <State state={checkStates[state]}>{state}</State>,
                  },
                  { title: 'Detail', cell: ({ detail }) => detail },
                ]}
              />
            </Panel>
            <Panel title="Jobs">
              <DataTable
                label="Jobs"
                rows={jobs}
                keyOf={({ name }) => name}
                columns={[
                  { title: 'Job', place: 'name', cell: ({ name }) => name.replaceAll('_', ' ') },
                  {
                    title: 'Last run',
                    isLabelled: true,
                    cell: ({ last_run_at: at }) => (at === null ? '–' : <When at={at} form="distance" />),
                  },
                  { title: 'Waiting', align: 'right', isLabelled: true, cell: ({ waiting }) => countText(waiting) },
                  { title: 'Running', align: 'right', isLabelled: true, cell: ({ running }) => countText(running) },
                  {
                    title: 'Given up',
                    align: 'right',
                    isLabelled: true,
                    cell: ({ failed, last_error }) => <span title={last_error ?? undefined}>{countText(failed)}</span>,
                  },
                ]}
              />
            </Panel>
            <Panel title="Settings">
              <DataTable
                label="Settings"
                rows={settings}
                keyOf={({ key }) => key}
                columns={[
                  { title: 'Setting', place: 'name', cell: ({ key }) => <code>{key}</code> },
                  { title: 'Value', cell: ({ value }) => <code>{value}</code> },
                ]}
              />
            </Panel>
          </>
        )}
      </Loaded>
    </Page>
  )
}
