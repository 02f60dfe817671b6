import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { HosterStatus } from '#api/hoster-console.ts'
import {
  earningsQuery,
  hosterQuery,
  hosterStatusQuery,
  lastDays,
  type OwnHoster,
  trustQuery,
} from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText, durationText, shareText } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd, sumUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import { codeText, saidText } from '../../texts/code-text.ts'
import { Checklist } from './Checklist.tsx'
import styles from './hoster.module.css'
import { hosterStates, isJoining } from './hoster-state.ts'
import { TrustMeters } from './TrustMeters.tsx'
import { WaitingModels } from './WaitingModels.tsx'

/** What the hoster earns, whether it gets requests and why, its models, and its trust. */
export function Overview() {
  const hosterId = useHosterId()
  const hoster = useQuery(hosterQuery(hosterId))
  const { seesEarnings } = useHosterRights()
  return (
    <Page title={hoster.data?.name ?? t`Overview`}>
      <Loaded query={hoster} height={96}>
        {data => <StatePanel hoster={data} />}
      </Loaded>
      {hoster.data !== undefined && isJoining(hoster.data.state) && <Checklist hoster={hoster.data} />}
      {seesEarnings && <Funds hosterId={hosterId} />}
      <Models hosterId={hosterId} />
      <TrustPanel hosterId={hosterId} />
    </Page>
  )
}

function StatePanel({ hoster }: { hoster: OwnHoster }) {
  const { mayManage } = useHosterRights()
  const { state, state_changes: changes, id } = hoster
  const last = changes[0]
  const change = useWrite<'active' | 'paused'>(
    to => ({ method: 'POST', path: `hosters/${id}/state`, body: { state: to } }),
    {
      areas: ['hoster', 'hosters'],
      done: (_, to) =>
        to === 'active' ? t`It gets requests again.` : t`It gets no further requests. Running ones end as usual.`,
    },
  )
  return (
    <Panel
      title={t`State`}
      aside={
        mayManage &&
        (state === 'active' || state === 'paused') && (
          <Button
            variant="default"
            size="compact-sm"
            loading={change.isPending}
            onClick={() => change.mutate(state === 'active' ? 'paused' : 'active')}
          >
            {state === 'active' ? t`Pause` : t`Resume`}
          </Button>
        )
      }
    >
      <div className={styles.wide}>
        <p>
          <State state={hosterStates[state].mark}>{codeText(state)}</State> {hosterStates[state].next}
          {state === 'suspended' && (
            <>
              {' '}
              <Link to="/h/$hosterId/trust" params={{ hosterId: id }}>{t`See why, and appeal`}</Link>
            </>
          )}
        </p>
        {last !== undefined && (
          <p className={styles.hint}>
            <When at={last.at} form="distance" />
            {last.by === 'system' ? '' : t`, by the ${codeText(last.by)}`}: {saidText(last.reason, last.reason_codes)}
          </p>
        )}
      </div>
    </Panel>
  )
}

function Funds({ hosterId }: { hosterId: string }) {
  const earnings = useQuery({ ...earningsQuery(hosterId, lastDays(1)), refetchInterval: 10_000 })
  return (
    <Loaded query={earnings} height={96}>
      {data => {
        const { lines } = data
        const today = sumUsd(lines.flatMap(line => [line.share_usd, -line.refunded_share_usd]))
        const requests = lines.reduce((sum, line) => sum + line.requests, 0)
        return (
          <Tiles>
            <Tile
              label={t`Earned today, UTC`}
              figure={
                <>
                  <Balance usd={today} /> USD
                </>
              }
            >
              <span className={styles.hint}>
                <Trans>{countText(requests)} requests</Trans>
              </span>
            </Tile>
            <Tile
              label={t`Payable`}
              figure={
                <>
                  <Balance usd={data.payable_usd} /> USD
                </>
              }
            >
              {data.held_until !== null && (
                <span className={styles.hint}>
                  <Trans>
                    {roundUsd(data.held_usd)} held until {utcDayText(data.held_until)}
                  </Trans>
                </span>
              )}
            </Tile>
          </Tiles>
        )
      }}
    </Loaded>
  )
}

const serverStates = {
  working: { mark: 'ok', text: t`healthy` },
  degraded: { mark: 'warn', text: t`fails sometimes` },
  failing: { mark: 'danger', text: t`failing` },
  ejected: { mark: 'danger', text: t`gets no requests` },
  disabled: { mark: 'off', text: t`switched off` },
  unknown: { mark: 'off', text: t`no request lately` },
} as const

function Models({ hosterId }: { hosterId: string }) {
  const status = useQuery(hosterStatusQuery(hosterId))
  return (
    <Panel title={t`Models`}>
      <Loaded query={status} height={120}>
        {({ models, waiting }) => (
          <div className={styles.wide}>
            {waiting.length > 0 && <WaitingModels waiting={waiting} />}
            {models.length === 0 && waiting.length === 0 && (
              <EmptyState text={t`No model is offered yet.`}>
                <Link to="/h/$hosterId/offers" params={{ hosterId }}>{t`Enter models and prices`}</Link>
              </EmptyState>
            )}
            {models.length > 0 && (
              <DataTable
                label={t`Models`}
                rows={models}
                keyOf={({ model }) => model}
                columns={[
                  { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
                  {
                    title: t`State`,
                    cell: ({ state }) => <State state={serverStates[state].mark}>{serverStates[state].text}</State>,
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: t`Running`,
                    align: 'right',
                    cell: each => countText(each.in_flight),
                    sortBy: ({ in_flight }) => in_flight,
                  },
                  {
                    title: t`First token`,
                    align: 'right',
                    cell: each => (each.first_token_p50_ms === null ? '–' : durationText(each.first_token_p50_ms)),
                    sortBy: ({ first_token_p50_ms }) => first_token_p50_ms,
                  },
                  {
                    title: t`Answered today`,
                    align: 'right',
                    cell: each => countText(each.answered_today),
                    sortBy: ({ answered_today }) => answered_today,
                  },
                  { title: t`Failed`, align: 'right', place: 'figure', cell: each => failedText(each) },
                ]}
              />
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function failedText({ answered_today: answered, failed_today: failed }: HosterStatus['models'][number]): string {
  if (answered + failed === 0) return '–'
  return `${countText(failed)} (${shareText(failed / (answered + failed))})`
}

function TrustPanel({ hosterId }: { hosterId: string }) {
  const trust = useQuery(trustQuery(hosterId))
  return (
    <Panel title={t`Trust`} aside={<Link to="/h/$hosterId/trust" params={{ hosterId }}>{t`How it comes about`}</Link>}>
      <Loaded query={trust} height={120}>
        {data => <TrustMeters trust={data} />}
      </Loaded>
    </Panel>
  )
}
