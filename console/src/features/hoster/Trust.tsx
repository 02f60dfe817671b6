import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Textarea } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type OwnTrust, trustQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText, shareText } from '../../format/number-text.ts'
import { AppealTable } from '../../parts/AppealTable.tsx'
import { AuditTable, auditTexts } from '../../parts/AuditTable.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import { codeText, saidText } from '../../texts/code-text.ts'
import styles from './hoster.module.css'
import { componentNames, componentText, TRUSTED_ABOVE, TrustMeters } from './TrustMeters.tsx'

/** How the trust score comes about, and what would raise it. */
export function Trust() {
  const hosterId = useHosterId()
  const trust = useQuery({ ...trustQuery(hosterId), refetchInterval: 30_000 })
  return (
    <Page title={t`Trust`}>
      <Loaded query={trust} height={640}>
        {data => <Body trust={data} hosterId={hosterId} />}
      </Loaded>
    </Page>
  )
}

function Body({ trust, hosterId }: { trust: OwnTrust; hosterId: string }) {
  return (
    <>
      {trust.is_quarantined && <Quarantine trust={trust} hosterId={hosterId} />}
      <Panel
        title={t`Score`}
        aside={
          <span className={styles.hint}>
            <Trans>
              {codeText(trust.standing)}: at most {trust.cap.toFixed(2)}
            </Trans>
          </span>
        }
      >
        <div className={styles.wide}>
          <TrustMeters trust={trust} />
          <p className={styles.hint}>
            {trust.as_of_day === null
              ? t`Score, parts and audits are shown from the second day on, as they were at the end of a day.`
              : t`Score, parts and audits as they were at the end of ${trust.as_of_day} (UTC). ${WHY_LATE}`}
          </p>
          {trust.is_set_by_operator && (
            <p>
              <Trans>
                The operator has set the score. The earned one is {trust.earned_score.toFixed(2)} and does not count
                now.
              </Trans>
            </p>
          )}
        </div>
      </Panel>
      <Panel title={t`What would raise it`}>
        {trust.would_raise.length === 0 ? (
          <EmptyState text={t`Nothing: all conditions are met.`} />
        ) : (
          <ul className={styles.list}>
            {trust.would_raise.map((text, index) => (
              <li key={text}>{saidText(text, trust.would_raise_codes.slice(index, index + 1))}</li>
            ))}
          </ul>
        )}
      </Panel>
      <Panel
        title={t`Parts`}
        aside={
          <span
            className={styles.hint}
          >{t`The score multiplies what the parts count, each to the power of its weight`}</span>
        }
      >
        <DataTable
          label={t`Parts of the score`}
          rows={trust.components}
          keyOf={({ name }) => name}
          columns={[
            { title: t`Part`, place: 'name', cell: ({ name }) => componentNames[name] },
            { title: t`What is known`, cell: componentText },
            {
              title: t`Rate`,
              align: 'right',
              cell: ({ rate, sample }) => (sample === 0 ? '–' : shareText(rate)),
            },
            { title: t`Of`, align: 'right', cell: ({ sample }) => countText(Math.round(sample)) },
            { title: t`Weight`, align: 'right', cell: ({ exponent }) => exponent },
            {
              title: t`Counts`,
              align: 'right',
              place: 'figure',
              cell: ({ bound, sample }) => (sample === 0 ? '–' : bound.toFixed(3)),
            },
          ]}
        />
      </Panel>
      <Panel
        title={t`Conditions`}
        aside={<span className={styles.hint}>{t`All must be met for a score above 0.8`}</span>}
      >
        <DataTable
          label={t`Conditions`}
          rows={[...trust.gates, capCondition(trust)]}
          keyOf={({ name }) => name}
          columns={[
            { title: t`Condition`, place: 'name', cell: ({ name }) => gateTexts[name] },
            {
              title: t`State`,
              cell: ({ is_passed }) => (
                <State state={is_passed ? 'ok' : 'warn'}>{is_passed ? t`met` : t`not yet`}</State>
              ),
            },
            { title: t`Has`, align: 'right', place: 'figure', cell: ({ has }) => gateNumber(has) },
            { title: t`Needs`, align: 'right', cell: ({ needs }) => gateNumber(needs) },
          ]}
        />
      </Panel>
      <Audits trust={trust} />
      <Tests trust={trust} />
      {trust.speeds.length > 0 && <Speeds trust={trust} />}
      {!trust.is_quarantined && trust.appeals.length > 0 && <Appeals trust={trust} />}
    </>
  )
}

const gateTexts = {
  requests: t`Requests`,
  audits: t`Audits`,
  ageDays: t`Days since it was first active`,
  honestyBound: t`Honesty counts`,
  cap: t`Highest score possible: 0.90 with a verified domain and payout account, 0.70 without`,
} as const

/** Without a verified domain and payout account, no score is above 0.8. */
function capCondition({ cap }: OwnTrust) {
  return { name: 'cap', has: cap, needs: 0.9, is_passed: cap > TRUSTED_ABOVE } as const
}

function gateNumber(value: number): string {
  return Number.isInteger(value) ? countText(value) : value.toFixed(2)
}

function Audits({ trust }: { trust: OwnTrust }) {
  return (
    <Panel
      title={t`Last audits`}
      aside={
        <span className={styles.hint}>
          <Trans>{countText(trust.audits)} in all</Trans>
        </span>
      }
    >
      {trust.as_of_day === null ? (
        <EmptyState text={t`Audits are shown from the second day on. ${WHY_LATE}`} />
      ) : trust.last_audits.length === 0 ? (
        <EmptyState
          text={t`No audit until the end of ${trust.as_of_day} (UTC). They arrive by themselves once requests come.`}
        />
      ) : (
        <AuditTable audits={trust.last_audits} when={{ title: t`Day`, cell: ({ day }) => day }} />
      )}
    </Panel>
  )
}

const WHY_LATE = t`A hoster that knew at once which requests were audits could answer them better than others.`

function Tests({ trust }: { trust: OwnTrust }) {
  // A test says something from the first audit on.
  if (trust.tests.every(({ audits }) => audits === 0)) return null
  return (
    <Panel
      title={t`Tests for proof`}
      aside={<span className={styles.hint}>{t`An honest hoster rarely gets below these`}</span>}
    >
      <p
        className={styles.hint}
      >{t`How likely it is, at worst, that a hoster which serves the named models and reports its tokens right gets such audits: 1 is certain, 0.001 is once in a thousand. Only less than the last column is proof against you.`}</p>
      <DataTable
        label={t`Tests for proof`}
        rows={trust.tests}
        keyOf={({ signal }) => signal}
        columns={[
          { title: t`Test`, place: 'name', cell: ({ signal }) => auditTexts[signal] },
          { title: t`Audits`, align: 'right', cell: ({ audits }) => countText(audits) },
          { title: t`Chance of an honest hoster`, align: 'right', place: 'figure', cell: ({ p }) => smallText(p) },
          {
            title: t`Proof below`,
            align: 'right',
            cell: each =>
              t`${smallText(each.proof_alone_below)}, or ${smallText(each.proof_with_another_below)} with another`,
          },
        ]}
      />
    </Panel>
  )
}

function smallText(p: number): string {
  return p >= 0.001 ? p.toFixed(3) : p.toExponential(0)
}

function Speeds({ trust }: { trust: OwnTrust }) {
  return (
    <Panel title={t`Speed of the last hour`} aside={<span className={styles.hint}>{t`A hint, and no evidence`}</span>}>
      <DataTable
        label={t`Speeds`}
        rows={trust.speeds}
        keyOf={({ model }) => model}
        columns={[
          { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
          {
            title: t`Tokens per second`,
            align: 'right',
            place: 'figure',
            cell: each => countText(each.tokens_per_second),
            sortBy: ({ tokens_per_second }) => tokens_per_second,
          },
          {
            title: t`Known hardware`,
            cell: ({ is_implausible: odd }) =>
              odd === null ? (
                t`not known for this model`
              ) : odd ? (
                <State state="warn">{t`is not that fast`}</State>
              ) : (
                <State state="ok">{t`can do that`}</State>
              ),
          },
        ]}
      />
    </Panel>
  )
}

function Quarantine({ trust, hosterId }: { trust: OwnTrust; hosterId: string }) {
  const { mayManage } = useHosterRights()
  const [text, setText] = useState('')
  const appeal = useWrite(() => ({ method: 'POST', path: `hosters/${hosterId}/appeal`, body: { text } }), {
    areas: ['hoster'],
    done: t`The operator sees your appeal.`,
    onDone: () => setText(''),
    showsError: true,
  })
  const waits = trust.appeals.some(({ answer }) => answer === null)
  return (
    <Panel title={t`Quarantine`}>
      <div className={styles.wide}>
        <p className={styles.notice}>
          <Trans>
            {trust.quarantine_reason === null
              ? t`A cheat was proven.`
              : saidText(trust.quarantine_reason, trust.quarantine_reason_codes)}{' '}
            It gets no requests, and its payouts are frozen. What it earned stays its own.
          </Trans>
        </p>
        {trust.appeals.length > 0 && <AppealTable appeals={trust.appeals} waits={t`waits`} />}
        {mayManage && !waits && (
          <form
            className={styles.form}
            onSubmit={event => {
              event.preventDefault()
              appeal.mutate()
            }}
          >
            <Textarea
              label={t`Appeal`}
              description={t`Say what happened. The operator looks at the quarantine again.`}
              minRows={3}
              maxLength={4_000}
              required
              value={text}
              onChange={event => setText(event.currentTarget.value)}
            />
            <FormProblem error={appeal.error} />
            <div className={styles.buttons}>
              <Button type="submit" loading={appeal.isPending}>{t`Send the appeal`}</Button>
            </div>
          </form>
        )}
      </div>
    </Panel>
  )
}

function Appeals({ trust }: { trust: OwnTrust }) {
  return (
    <Panel title={t`Appeals`}>
      <AppealTable appeals={trust.appeals} waits={t`waits`} />
    </Panel>
  )
}
