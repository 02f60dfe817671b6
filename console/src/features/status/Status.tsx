import { useQuery } from '@tanstack/react-query'
import type { StatusReport } from '#api/status.ts'
import { statusQuery } from '../../api/queries.ts'
import { plural, shareText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './status.module.css'

const states = {
  ok: { state: 'ok', word: 'up' },
  degraded: { state: 'warn', word: 'partly down' },
  down: { state: 'danger', word: 'down' },
} as const

const sentences = {
  ok: 'All models are up.',
  degraded: 'Some servers get no requests now.',
  down: 'At least one model is down.',
} as const

/** Models, servers with their uptime of 90 days, and incidents. */
export function Status() {
  const status = useQuery(statusQuery)
  return (
    <main>
      <Page title="Status">
        <Loaded query={status} height={480}>
          {({ state, models, servers, incidents, as_of }) => (
            <>
              <Panel>
                <p className={styles.sum}>
                  <State state={states[state].state}>{sentences[state]}</State>
                </p>
                <p className={styles.hint}>
                  As of <When at={as_of} />. The page reloads the state every 10 seconds.
                </p>
              </Panel>
              <Panel title="Models">
                {models.length === 0 ? (
                  <EmptyState text="No model is offered now." />
                ) : (
                  <DataTable
                    label="Models"
                    rows={models}
                    keyOf={({ id }) => id}
                    columns={[
                      { title: 'Model', place: 'name', cell: ({ id }) => id },
                      {
                        title: 'Servers',
                        cell: ({ servers: all, healthy }) => `${healthy} of ${plural(all, 'server')} up`,
                      },
                      { title: 'State', align: 'right', place: 'money', cell: each => <StateOf state={each.state} /> },
                    ]}
                  />
                )}
              </Panel>
              <Panel title="Servers">
                {servers.length === 0 && <EmptyState text="No server has been used yet." />}
                {servers.map(server => (
                  <Server key={server.name} server={server} />
                ))}
              </Panel>
              <Panel title="Incidents">
                {incidents.length === 0 ? (
                  <EmptyState text="No incident in the last 90 days." />
                ) : (
                  <DataTable
                    label="Incidents"
                    rows={incidents}
                    keyOf={({ server, began_at }) => `${server} ${began_at}`}
                    columns={[
                      { title: 'Server', place: 'name', cell: ({ server }) => server },
                      { title: 'Models', cell: ({ models: ids }) => ids.join(', ') },
                      {
                        title: 'What',
                        cell: ({ kind }) =>
                          kind === 'ejected' ? 'failed, and got no requests' : 'refused the key of the operator',
                      },
                      { title: 'Began', isLabelled: true, cell: ({ began_at }) => <When at={began_at} /> },
                      {
                        title: 'Ended',
                        isLabelled: true,
                        cell: ({ ended_at }) => (ended_at === null ? 'goes on' : <When at={ended_at} />),
                      },
                    ]}
                  />
                )}
              </Panel>
            </>
          )}
        </Loaded>
      </Page>
    </main>
  )
}

function StateOf({ state }: { state: keyof typeof states }) {
  return <State state={states[state].state}>{states[state].word}</State>
}

function Server({ server: { name, provider, uptime, days, state } }: { server: StatusReport['servers'][number] }) {
  const text = uptime === null ? 'no request in 90 days' : `${shareText(uptime)} answered in 90 days`
  return (
    <section className={styles.server} aria-label={name}>
      <div className={styles.head}>
        <Provider kind={provider} label={name} />
        <StateOf state={state} />
        <span className={styles.hint}>{text}</span>
      </div>
      <svg className={styles.days} viewBox={`0 0 ${days.length * 4} 24`} preserveAspectRatio="none" aria-hidden="true">
        {days.map((each, index) => (
          <rect key={each.day} x={index * 4} width="3" height="24" fill={colorOf(each.uptime)} />
        ))}
      </svg>
    </section>
  )
}

function colorOf(uptime: number | null): string {
  if (uptime === null) return 'var(--hairline)'
  if (uptime >= 0.99) return 'var(--ok)'
  return uptime >= 0.9 ? 'var(--warn)' : 'var(--danger)'
}
