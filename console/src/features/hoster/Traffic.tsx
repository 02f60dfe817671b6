import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { HosterTraffic } from '#api/hoster-console.ts'
import { lastDays, trafficQuery } from '../../api/hoster-queries.ts'
import { StackedBars } from '../../charts/StackedBars.tsx'
import { compactCount, countText, shareText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { useHosterId } from '../../shell/use-hoster.ts'
import { codeText } from '../../texts/code-text.ts'
import { DayChoice, useDays } from './DayChoice.tsx'
import styles from './hoster.module.css'
import { byModel, isFault, outcomeTexts, sumByDay } from './traffic-sums.ts'

/** Requests, failures by outcome, and the hoster's count of tokens against the gateway's. */
export function Traffic() {
  const hosterId = useHosterId()
  const days = useDays()
  const span = lastDays(days)
  const traffic = useQuery({ ...trafficQuery(hosterId, span), refetchInterval: 60_000 })
  return (
    <Page title={t`Traffic`} actions={<DayChoice />}>
      <Loaded query={traffic} height={560}>
        {({ data }) =>
          data.length === 0 ? (
            <Panel>
              <EmptyState text={t`No request on these days. Requests appear about 15 minutes after they began.`}>
                <Link to="/h/$hosterId" params={{ hosterId }}>{t`See what is missing`}</Link>
              </EmptyState>
            </Panel>
          ) : (
            <Body data={data} days={days} until={span.until} />
          )
        }
      </Loaded>
    </Page>
  )
}

function Body({ data, days, until }: { data: HosterTraffic['data']; days: number; until: string }) {
  const models = byModel(data)
  const outcomes = [...new Set(models.flatMap(({ failed }) => Object.keys(failed)))].sort()
  const attemptsOf = (outcome: string) => models.reduce((sum, { failed }) => sum + (failed[outcome] ?? 0), 0)
  return (
    <>
      <Panel title={t`By day (UTC)`} aside={<span className={styles.hint}>{t`About 15 minutes late`}</span>}>
        <StackedBars
          label={t`Attempts by day`}
          series={[
            { name: t`answered`, color: 'var(--series-1)' },
            { name: t`your faults`, color: 'var(--series-5)' },
            { name: t`others`, color: 'var(--series-7)' },
          ]}
          bars={sumByDay(data, { days, until }).map(({ label, answered, faults, others, isOpen }) => ({
            label,
            values: [answered, faults, others],
            isOpen,
          }))}
          text={compactCount}
        />
      </Panel>
      <Panel title={t`By model`}>
        <DataTable
          label={t`Requests by model`}
          rows={models}
          keyOf={({ model }) => model}
          columns={[
            { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
            {
              title: t`Answered`,
              align: 'right',
              place: 'figure',
              cell: ({ answered }) => countText(answered),
              sortBy: ({ answered }) => answered,
            },
            {
              title: t`Your faults`,
              align: 'right',
              cell: ({ attempts, faults }) =>
                faults === 0 ? '–' : `${countText(faults)} (${shareText(faults / attempts)})`,
              sortBy: ({ faults }) => faults,
            },
            {
              title: t`Not counted against you`,
              align: 'right',
              cell: ({ attempts, answered, faults }) => countText(attempts - answered - faults),
              sortBy: each => each.attempts - each.answered - each.faults,
            },
          ]}
        />
      </Panel>
      <Panel title={t`Failures`}>
        {outcomes.length === 0 ? (
          <EmptyState text={t`No attempt failed on these days.`} />
        ) : (
          <DataTable
            label={t`Failures by outcome`}
            rows={outcomes}
            keyOf={outcome => outcome}
            columns={[
              {
                title: t`Outcome`,
                place: 'name',
                cell: outcome => outcomeTexts[outcome] ?? outcome,
                sortBy: outcome => outcomeTexts[outcome] ?? outcome,
              },
              {
                title: t`Trust`,
                cell: outcome =>
                  isFault(outcome) ? (
                    <State state="danger">{t`lowers it`}</State>
                  ) : (
                    <State state="off">{t`not counted`}</State>
                  ),
              },
              {
                title: t`Attempts`,
                align: 'right',
                place: 'figure',
                cell: outcome => countText(attemptsOf(outcome)),
                sortBy: attemptsOf,
              },
            ]}
          />
        )}
      </Panel>
      <Panel
        title={t`Tokens: your count and ours`}
        aside={<span className={styles.hint}>{t`Answers that both sides counted`}</span>}
      >
        <DataTable
          label={t`Tokens by model`}
          rows={models.flatMap(model => [
            { ...model, side: 'input', tokens: model.input_tokens },
            { ...model, side: 'output', tokens: model.output_tokens },
          ])}
          keyOf={({ model, side }) => `${model} ${side}`}
          columns={[
            {
              title: t`Model`,
              place: 'name',
              cell: ({ model, side }) => `${model}, ${codeText(side)}`,
              sortBy: ({ model }) => model,
            },
            {
              title: t`You reported`,
              align: 'right',
              cell: ({ tokens }) => countText(tokens.reported),
              sortBy: ({ tokens }) => tokens.reported,
            },
            {
              title: t`We counted`,
              align: 'right',
              cell: ({ tokens }) => countText(tokens.counted),
              sortBy: ({ tokens }) => tokens.counted,
            },
            {
              title: t`Difference`,
              align: 'right',
              cell: ({ tokens }) => differenceText(tokens),
            },
            {
              title: t`Billed`,
              align: 'right',
              place: 'figure',
              cell: ({ tokens }) => countText(tokens.billed),
              sortBy: ({ tokens }) => tokens.billed,
            },
          ]}
        />
        <p
          className={styles.hint}
        >{t`Tokenizers differ. A report within the band that is learned for the model is billed as it is; beyond it our count is billed.`}</p>
      </Panel>
    </>
  )
}

function differenceText({ reported, counted }: { reported: number; counted: number }): string {
  if (counted === 0) return '–'
  const share = reported / counted - 1
  return `${share < 0 ? '−' : '+'}${(Math.abs(share) * 100).toFixed(1)} %`
}
