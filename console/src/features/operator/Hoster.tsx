import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { HosterReview } from '#api/operator/supply.ts'
import { hosterReviewQuery } from '../../api/operator-queries.ts'
import { shareText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { InviteDialog } from '../../parts/InviteDialog.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { HosterMoney } from './HosterMoney.tsx'
import { HosterStateDialog, stateActions } from './HosterStateDialog.tsx'
import { HosterTrust } from './HosterTrust.tsx'
import { hosterMarks } from './hoster-marks.ts'
import styles from './operator.module.css'
import { useMayOperate } from './use-may-operate.ts'

const roles = ['owner', 'developer', 'billing', 'viewer'].map(value => ({ value, label: value }))

/** One hoster as the operator reviews it. */
export function Hoster() {
  const hosterId = useParams({ strict: false }).hosterId!
  const hoster = useQuery(hosterReviewQuery(hosterId))
  return (
    <Page
      title={hoster.data?.name ?? 'Hoster'}
      actions={
        <Link to="/h/$hosterId" params={{ hosterId }}>
          See what the hoster sees
        </Link>
      }
    >
      <Loaded query={hoster} height={640}>
        {data => <Body hoster={data} />}
      </Loaded>
    </Page>
  )
}

function Body({ hoster }: { hoster: HosterReview }) {
  const mayOperate = useMayOperate()
  const [isInviting, setInviting] = useState(false)
  const [chosen, setChosen] = useState<HosterReview['next_states'][number] | null>(null)
  return (
    <>
      {mayOperate && (
        <div className={styles.buttons}>
          {stateActions(hoster).map(({ to, label, isMain }) => (
            <Button key={to} variant={isMain ? 'filled' : 'default'} onClick={() => setChosen(to)}>
              {label}
            </Button>
          ))}
        </div>
      )}
      <Panel title="Hoster">
        <Facts
          facts={{
            State: <State state={hosterMarks[hoster.state]}>{hoster.state}</State>,
            Server: hoster.transport === 'agent' ? 'connects by an agent' : <code>{hoster.base_url}</code>,
            Share: shareText(hoster.share),
            Applied: <When at={hoster.created_at} />,
            'First active': hoster.active_since === null ? 'not yet' : <When at={hoster.active_since} />,
            Region: hoster.manifest?.region,
            'Data policy': hoster.manifest === null ? null : policyText(hoster.manifest.data_policy),
            Id: (
              <>
                <code>{hoster.id}</code> <CopyButton text={hoster.id} what="the id of the hoster" />
              </>
            ),
          }}
        />
      </Panel>
      <Verification verification={hoster.verification} />
      <Panel title="Models and prices">
        {hoster.models.length === 0 ? (
          <EmptyState text="It offers no model yet." />
        ) : (
          <DataTable
            label="Models and prices"
            rows={hoster.models}
            keyOf={({ model }) => model}
            columns={[
              { title: 'Model', place: 'name', cell: ({ model }) => model },
              {
                title: 'Quantization',
                isLabelled: true,
                cell: ({ model }) =>
                  hoster.manifest?.models.find(({ id }) => id === model)?.quantization ?? 'not stated',
              },
              {
                title: 'USD per million, in / out',
                align: 'right',
                place: 'figure',
                isLabelled: true,
                cell: each => `${exactUsd(each.input_usd_per_million)} / ${exactUsd(each.output_usd_per_million)}`,
              },
            ]}
          />
        )}
      </Panel>
      <HosterTrust hoster={hoster} />
      <HosterMoney hosterId={hoster.id} name={hoster.name} />
      <Panel
        title="People"
        aside={
          mayOperate &&
          hoster.state !== 'retired' && (
            <Button size="compact-sm" variant="default" onClick={() => setInviting(true)}>
              Invite a person
            </Button>
          )
        }
      >
        {hoster.people.length === 0 ? (
          <EmptyState text="Nobody signs in for it yet. Invite its owner." />
        ) : (
          <DataTable
            label="People"
            rows={hoster.people}
            keyOf={({ email }) => email}
            columns={[
              { title: 'Person', place: 'name', cell: ({ email }) => email },
              { title: 'Role', cell: ({ role }) => role },
            ]}
          />
        )}
      </Panel>
      <Panel title="History">
        <DataTable
          label="History"
          rows={hoster.state_changes}
          keyOf={({ at, to }) => `${at} ${to}`}
          columns={[
            { title: 'Time', cell: ({ at }) => <When at={at} /> },
            { title: 'State', place: 'name', cell: ({ to }) => to },
            { title: 'Reason', cell: ({ reason }) => reason },
            { title: 'By', isLabelled: true, cell: ({ by }) => (by === 'system' ? 'the gateway' : by) },
          ]}
        />
      </Panel>
      {isInviting && (
        <InviteDialog
          path={`operator/hosters/${hoster.id}/invites`}
          areas={['supply', 'hoster-people']}
          roles={roles}
          firstRole="owner"
          onClose={() => setInviting(false)}
        />
      )}
      {chosen !== null && <HosterStateDialog hoster={hoster} to={chosen} onClose={() => setChosen(null)} />}
    </>
  )
}

function Verification({ verification }: { verification: HosterReview['verification'] }) {
  const { challenge, manifest, prices, probes, checked_at: checkedAt } = verification
  const rows = [
    { check: 'Proof of the server', isPassed: challenge.passed, problem: challenge.problem },
    { check: 'Models', isPassed: manifest.passed, problem: manifest.problem },
    { check: 'Prices within your bounds', isPassed: prices.passed, problem: prices.problem },
    ...probes.map(({ model, passed, problem }) => ({
      check: `Answers of ${model}`,
      isPassed: passed >= 3,
      problem: problem ?? `${passed} of 3`,
    })),
  ]
  return (
    <Panel
      title="Verification"
      aside={
        <span className={styles.hint}>
          {checkedAt === null ? 'not checked yet' : <When at={checkedAt} form="distance" />}
        </span>
      }
    >
      <DataTable
        label="Verification"
        rows={rows}
        keyOf={({ check }) => check}
        columns={[
          { title: 'Check', place: 'name', cell: ({ check }) => check },
          {
            title: 'Result',
            place: 'figure',
            isLabelled: true,
            cell: ({ isPassed }) => <State state={isPassed ? 'ok' : 'warn'}>{isPassed ? 'passed' : 'open'}</State>,
          },
          { title: 'Detail', cell: ({ isPassed, problem }) => (isPassed ? '' : problem) },
        ]}
      />
    </Panel>
  )
}

function policyText(policy: NonNullable<HosterReview['manifest']>['data_policy']): string {
  if (policy === null || policy === undefined) return 'not stated'
  const { trains_on_data: trains, retention_days: days } = policy
  const kept = days === null ? 'kept without limit' : days === 0 ? 'not kept' : `kept for ${days} days`
  return `${trains ? 'used for training' : 'not used for training'}, ${kept}`
}
