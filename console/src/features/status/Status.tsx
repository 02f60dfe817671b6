import { plural, t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { useQuery } from '@tanstack/react-query'
import type { StatusReport } from '#api/status.ts'
import { statusQuery } from '../../api/queries.ts'
import { historyText } from '../../format/history-text.ts'
import { shareText } from '../../format/number-text.ts'
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
  ok: { state: 'ok', word: t`up` },
  degraded: { state: 'warn', word: t`partly down` },
  down: { state: 'danger', word: t`down` },
  unknown: { state: 'off', word: t`no request lately` },
} as const

const sentences = {
  ok: t`All models that were used lately are up.`,
  degraded: t`Some servers fail requests.`,
  down: t`No model is up.`,
  unknown: t`No model was used lately.`,
} as const

/** Models, servers with their uptime of 90 days, and incidents. */
export function Status() {
  const status = useQuery(statusQuery)
  return (
    <main>
      <Page title={t`Status`}>
        <Loaded query={status} height={480}>
          {({ state, models, servers, incidents, as_of }) => (
            <>
              <Panel>
                <p className={styles.sum}>
                  <State state={states[state].state}>
                    {state !== 'down' && models.some(model => model.state === 'down')
                      ? t`At least one model is down.`
                      : sentences[state]}
                  </State>
                </p>
                <p className={styles.hint}>
                  <Trans>
                    As of <When at={as_of} />. The page reloads the state every 10 seconds.
                  </Trans>
                </p>
              </Panel>
              <Panel title={t`Models`}>
                {models.length === 0 ? (
                  <EmptyState text={t`No model is offered now.`} />
                ) : (
                  <DataTable
                    label={t`Models`}
                    rows={models}
                    keyOf={({ id }) => id}
                    columns={[
                      { title: t`Model`, place: 'name', cell: ({ id }) => id, sortBy: ({ id }) => id },
                      {
                        title: t`Servers`,
                        cell: ({ servers: all, healthy }) =>
                          t`${all - healthy} of ${plural(all, { one: '# server', other: '# servers' })} down`,
                      },
                      { title: t`90 days`, cell: each => historyText(each) },
                      {
                        title: t`State`,
                        align: 'right',
                        place: 'figure',
                        cell: each => <StateOf state={each.state} />,
                        sortBy: ({ state }) => state,
                      },
                    ]}
                  />
                )}
              </Panel>
              <Panel title={t`Servers`}>
                {servers.length === 0 && <EmptyState text={t`No server has been used yet.`} />}
                {servers.map(server => (
                  <Server key={server.name} server={server} />
                ))}
              </Panel>
              <Panel title={t`Incidents`}>
                {incidents.length === 0 ? (
                  <EmptyState text={t`No incident in the last 90 days.`} />
                ) : (
                  <DataTable
                    label={t`Incidents`}
                    rows={incidents}
                    keyOf={({ server, began_at }) => `${server} ${began_at}`}
                    columns={[
                      { title: t`Server`, place: 'name', cell: ({ server }) => serverName(server) },
                      { title: t`Models`, cell: ({ models: ids }) => ids.join(', ') },
                      {
                        title: t`What`,
                        cell: ({ kind }) => incidentTexts[kind],
                      },
                      {
                        title: t`Began`,
                        cell: ({ began_at }) => <When at={began_at} />,
                        sortBy: ({ began_at }) => began_at,
                      },
                      {
                        title: t`Ended`,
                        cell: ({ ended_at }) => (ended_at === null ? t`goes on` : <When at={ended_at} />),
                        sortBy: ({ ended_at }) => ended_at,
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

const incidentTexts = {
  ejected: t`failed, and got no requests`,
  credential_rejected: t`refused the key of the operator`,
  failing: t`failed most requests`,
} as const

function StateOf({ state }: { state: keyof typeof states }) {
  return <State state={states[state].state}>{states[state].word}</State>
}

/** The gateway numbers the servers whose names the operator does not show. */
function serverName(name: string): string {
  const number = /^Server (\d+)$/.exec(name)?.[1]
  return number === undefined ? name : t`Server ${number}`
}

function Server({
  server: { name: given, provider, days, state, ...history },
}: {
  server: StatusReport['servers'][number]
}) {
  const name = serverName(given)
  return (
    <section className={styles.server} aria-label={name}>
      <div className={styles.head}>
        <Provider kind={provider} label={name} />
        <StateOf state={state} />
        <span className={styles.hint}>{historyText(history)}</span>
      </div>
      <svg className={styles.days} viewBox={`0 0 ${days.length * 4} 24`} preserveAspectRatio="none" aria-hidden="true">
        {days.map((each, index) => (
          <rect key={each.day} x={index * 4} width="3" height="24" fill={colorOf(each.uptime)}>
            <title>{dayText(each)}</title>
          </rect>
        ))}
      </svg>
    </section>
  )
}

function dayText({ day, uptime, outages }: StatusReport['servers'][number]['days'][number]): string {
  if (uptime === null) return t`${day}: no request`
  return t`${day}: ${shareText(uptime)} answered${outages === 0 ? '' : `, ${plural(outages, { one: '# outage', other: '# outages' })}`}`
}

function colorOf(uptime: number | null): string {
  if (uptime === null) return 'var(--hairline)'
  if (uptime >= 0.99) return 'var(--ok)'
  return uptime >= 0.9 ? 'var(--warn)' : 'var(--danger)'
}
