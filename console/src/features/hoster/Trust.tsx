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
import styles from './hoster.module.css'
import { componentNames, componentText, TrustMeters } from './TrustMeters.tsx'

/** How the trust score comes about, and what would raise it. */
export function Trust() {
  const hosterId = useHosterId()
  const trust = useQuery({ ...trustQuery(hosterId), refetchInterval: 30_000 })
  return (
    <Page title="Trust">
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
        title="Score"
        aside={
          <span className={styles.hint}>
            {trust.standing}: at most {trust.cap.toFixed(2)}
          </span>
        }
      >
        <div className={styles.wide}>
          <TrustMeters trust={trust} />
          <p className={styles.hint}>
            {trust.as_of_day === null
              ? 'Score, parts and audits are shown from the second day on, as they were at the end of a day.'
              : `Score, parts and audits as they were at the end of ${trust.as_of_day} (UTC). ${WHY_LATE}`}
          </p>
          {trust.is_set_by_operator && (
            <p>
              The operator has set the score. The earned one is {trust.earned_score.toFixed(2)} and does not count now.
            </p>
          )}
        </div>
      </Panel>
      <Panel title="What would raise it">
        {trust.would_raise.length === 0 ? (
          <EmptyState text="Nothing: all conditions are met." />
        ) : (
          <ul className={styles.list}>
            {trust.would_raise.map(text => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        )}
      </Panel>
      <Panel
        title="Parts"
        aside={
          <span className={styles.hint}>
            The score multiplies what the parts count, each to the power of its weight
          </span>
        }
      >
        <DataTable
          label="Parts of the score"
          rows={trust.components}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Part', place: 'name', cell: ({ name }) => componentNames[name] },
            { title: 'What is known', cell: componentText },
            {
              title: 'Rate',
              align: 'right',
              isLabelled: true,
              cell: ({ rate, sample }) => (sample === 0 ? '–' : shareText(rate)),
            },
            { title: 'Of', align: 'right', isLabelled: true, cell: ({ sample }) => countText(Math.round(sample)) },
            { title: 'Weight', align: 'right', isLabelled: true, cell: ({ exponent }) => exponent },
            { title: 'Counts', align: 'right', place: 'figure', cell: ({ bound }) => bound.toFixed(3) },
          ]}
        />
      </Panel>
      <Panel title="Conditions" aside={<span className={styles.hint}>All must be met for a score above 0.8</span>}>
        <DataTable
          label="Conditions"
          rows={trust.gates}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Condition', place: 'name', cell: ({ name }) => gateTexts[name] },
            {
              title: 'State',
              cell: ({ is_passed }) => <State state={is_passed ? 'ok' : 'warn'}>{is_passed ? 'met' : 'not yet'}</State>,
            },
            { title: 'Has', align: 'right', place: 'figure', cell: ({ has }) => gateNumber(has) },
            { title: 'Needs', align: 'right', isLabelled: true, cell: ({ needs }) => gateNumber(needs) },
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
  requests: 'Requests',
  audits: 'Audits',
  ageDays: 'Days since it was first active',
  honestyBound: 'Honesty counts',
} as const

function gateNumber(value: number): string {
  return Number.isInteger(value) ? countText(value) : value.toFixed(2)
}

function Audits({ trust }: { trust: OwnTrust }) {
  return (
    <Panel title="Last audits" aside={<span className={styles.hint}>{countText(trust.audits)} in all</span>}>
      {trust.as_of_day === null ? (
        <EmptyState text={`Audits are shown from the second day on. ${WHY_LATE}`} />
      ) : trust.last_audits.length === 0 ? (
        <EmptyState
          text={`No audit until the end of ${trust.as_of_day} (UTC). They arrive by themselves once requests come.`}
        />
      ) : (
        <AuditTable audits={trust.last_audits} when={{ title: 'Day', cell: ({ day }) => day }} />
      )}
    </Panel>
  )
}

const WHY_LATE = 'A hoster that knew at once which requests were audits could answer them better than others.'

function Tests({ trust }: { trust: OwnTrust }) {
  if (trust.tests.length === 0) return null
  return (
    <Panel
      title="Tests for proof"
      aside={<span className={styles.hint}>An honest hoster rarely gets below these</span>}
    >
      <DataTable
        label="Tests for proof"
        rows={trust.tests}
        keyOf={({ signal }) => signal}
        columns={[
          { title: 'Test', place: 'name', cell: ({ signal }) => auditTexts[signal] },
          { title: 'Audits', align: 'right', isLabelled: true, cell: ({ audits }) => countText(audits) },
          { title: 'Smallest p', align: 'right', place: 'figure', cell: ({ p }) => smallText(p) },
          {
            title: 'Proof below',
            align: 'right',
            isLabelled: true,
            cell: each =>
              `${smallText(each.proof_alone_below)}, or ${smallText(each.proof_with_another_below)} with another`,
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
    <Panel title="Speed of the last hour" aside={<span className={styles.hint}>A hint, and no evidence</span>}>
      <DataTable
        label="Speeds"
        rows={trust.speeds}
        keyOf={({ model }) => model}
        columns={[
          { title: 'Model', place: 'name', cell: ({ model }) => model },
          {
            title: 'Tokens per second',
            align: 'right',
            place: 'figure',
            cell: each => countText(each.tokens_per_second),
          },
          {
            title: 'Known hardware',
            cell: ({ is_implausible: odd }) =>
              odd === null ? (
                'not known for this model'
              ) : odd ? (
                <State state="warn">is not that fast</State>
              ) : (
                <State state="ok">can do that</State>
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
    done: 'The operator sees your appeal.',
    onDone: () => setText(''),
    showsError: true,
  })
  const waits = trust.appeals.some(({ answer }) => answer === null)
  return (
    <Panel title="Quarantine">
      <div className={styles.wide}>
        <p className={styles.notice}>
          {trust.quarantine_reason ?? 'A cheat was proven.'} It gets no requests, and its payouts are frozen. What it
          earned stays its own.
        </p>
        {trust.appeals.length > 0 && <AppealTable appeals={trust.appeals} waits="waits" />}
        {mayManage && !waits && (
          <form
            className={styles.form}
            onSubmit={event => {
              event.preventDefault()
              appeal.mutate()
            }}
          >
            <Textarea
              label="Appeal"
              description="Say what happened. The operator looks at the quarantine again."
              minRows={3}
              maxLength={4_000}
              required
              value={text}
              onChange={event => setText(event.currentTarget.value)}
            />
            <FormProblem error={appeal.error} />
            <div className={styles.buttons}>
              <Button type="submit" loading={appeal.isPending}>
                Send the appeal
              </Button>
            </div>
          </form>
        )}
      </div>
    </Panel>
  )
}

function Appeals({ trust }: { trust: OwnTrust }) {
  return (
    <Panel title="Appeals">
      <AppealTable appeals={trust.appeals} waits="waits" />
    </Panel>
  )
}
