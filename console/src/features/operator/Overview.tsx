import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ShownServer } from '#api/operator/overview.ts'
import { overviewQuery } from '../../api/operator-queries.ts'
import { useLiveOverview } from '../../api/use-live.ts'
import { countText, durationText } from '../../format/number-text.ts'
import { balanceText, roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { When } from '../../parts/When.tsx'
import { codeText, saidText } from '../../texts/code-text.ts'
import { AuditState } from './AuditState.tsx'
import styles from './operator.module.css'
import { Sales } from './Sales.tsx'
import { ServerAttempts, ServerError } from './ServerAttempts.tsx'
import { ServerState } from './ServerState.tsx'
import { SetupPanel } from './SetupPanel.tsx'
import { WaitingPanel } from './WaitingPanel.tsx'

/** The installation at a glance: alarms first, then money, servers and nodes. */
export function Overview() {
  const overview = useQuery(overviewQuery)
  useLiveOverview()
  return (
    <Page title={t`Overview`}>
      <Loaded query={overview} height={640}>
        {({ today, alarms, waiting, servers, nodes, last_audit: audit, ...sums }) => (
          <>
            <SetupPanel />
            {alarms.length > 0 && (
              <Panel title={t`Alarms`}>
                <ul className={styles.alarms}>
                  {alarms.map(({ key, severity, message, message_codes, todo, todo_codes, link, since }) => (
                    <li key={key}>
                      <State state={severity}>{severity === 'danger' ? t`Alarm` : t`Warning`}</State>
                      <span>{saidText(message, message_codes)}</span>
                      <span className={styles.hint}>{saidText(todo, todo_codes)}</span>
                      {link !== null && <a href={link}>{t`Open`}</a>}
                      {since !== null && (
                        <span className={styles.hint}>
                          <Trans>
                            since <When at={since} />
                          </Trans>
                        </span>
                      )}
                    </li>
                  ))}
                </ul>
              </Panel>
            )}
            <WaitingPanel waiting={waiting} />
            <Tiles>
              <Tile label={t`Revenue today, UTC`} figure={`${roundUsd(today.revenue_usd)} USD`}>
                <span className={styles.hint}>
                  <Trans>
                    {roundUsd(today.charged_usd)} charged ·{' '}
                    <Plural value={today.requests} one="# request" other="# requests" />
                  </Trans>
                </span>
              </Tile>
              <Tile label={t`Balances of customers`} figure={`${balanceText(sums.customer_credit_usd)} USD`}>
                <span className={styles.hint}>
                  <Trans>{roundUsd(sums.held_usd)} held</Trans>
                </span>
              </Tile>
              <Tile label={t`Payable to hosters`} figure={`${roundUsd(sums.payable_usd)} USD`} />
              <Tile label={t`Measured but not charged, 30 days`} figure={`${roundUsd(sums.written_off_30d_usd)} USD`}>
                <span className={styles.hint}>{t`what was measured after its hold had ended`}</span>
              </Tile>
              <Tile label={t`Failed requests today, UTC`} figure={countText(today.failed)}>
                <span className={styles.hint}>
                  <Trans>
                    of <Plural value={today.requests} one="# request" other="# requests" />
                  </Trans>
                </span>
              </Tile>
            </Tiles>
            <Sales />
            <Panel title={t`Books`} aside={<AuditState audit={audit} />}>
              <p className={styles.hint}>
                {audit === null ? (
                  t`The first audit runs within minutes of the first start.`
                ) : (
                  <Trans>
                    Last audit <When at={audit.at} form="distance" />. Granted today: {roundUsd(today.granted_usd)} USD.
                    Refunded today: {roundUsd(today.refunded_usd)} USD.
                    {sums.summed_at !== null && (
                      <Trans>
                        {' '}
                        Sums as of <When at={sums.summed_at} />.
                      </Trans>
                    )}
                  </Trans>
                )}
              </p>
            </Panel>
            <Panel title={t`Servers`}>
              <Servers servers={servers} />
            </Panel>
            <Panel title={t`Nodes`}>
              <DataTable
                label={t`Nodes`}
                rows={nodes}
                keyOf={({ id }) => id}
                columns={[
                  { title: t`Node`, place: 'name', cell: ({ id }) => <code>{id.slice(-12)}</code> },
                  {
                    title: t`State`,
                    cell: ({ state }) => (
                      <State state={state === 'alive' ? 'ok' : state === 'silent' ? 'warn' : 'danger'}>
                        {codeText(state)}
                      </State>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  { title: t`Version`, cell: ({ version }) => version ?? t`unknown`, sortBy: ({ version }) => version },
                  {
                    title: t`Started`,
                    cell: ({ started_at }) => <When at={started_at} form="distance" />,
                    sortBy: ({ started_at }) => started_at,
                  },
                ]}
              />
            </Panel>
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Servers({ servers }: { servers: readonly ShownServer[] }) {
  if (servers.length === 0) {
    return (
      <EmptyState text={t`No server answers yet. Add a provider, or start Ollama on this machine.`}>
        <Link to="/operator/providers">{t`Providers`}</Link>
      </EmptyState>
    )
  }
  return (
    <DataTable
      label={t`Servers`}
      rows={servers}
      keyOf={({ endpoint_id, model }) => `${endpoint_id} ${model}`}
      columns={[
        { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
        {
          title: t`Server`,
          cell: ({ name, provider }) => <Provider kind={provider} label={name} />,
          sortBy: ({ name }) => name,
        },
        {
          title: t`State`,
          cell: ({ state }) => <ServerState state={state} />,
          sortBy: ({ state }) => state,
        },
        {
          title: t`First token`,
          align: 'right',
          cell: ({ first_token_p50_ms: ms }) => (ms === null ? '–' : durationText(ms)),
          sortBy: ({ first_token_p50_ms: ms }) => ms,
        },
        {
          title: t`Attempts today`,
          cell: server => <ServerAttempts model={server.model} server={server} />,
          sortBy: ({ attempts_today: attempts }) => attempts,
        },
        { title: t`Last error`, cell: ({ last_error }) => <ServerError error={last_error} /> },
        {
          title: t`Running`,
          align: 'right',
          cell: ({ in_flight }) => countText(in_flight),
          sortBy: ({ in_flight }) => in_flight,
        },
      ]}
    />
  )
}
