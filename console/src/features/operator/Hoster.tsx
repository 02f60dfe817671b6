import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import type { HosterReview } from '#api/operator/supply.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { hosterReviewQuery } from '../../api/operator-queries.ts'
import { shareText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText, problemText, saidText } from '../../texts/code-text.ts'
import { HosterMoney } from './HosterMoney.tsx'
import { HosterStateDialog, stateActions } from './HosterStateDialog.tsx'
import { HosterTrust } from './HosterTrust.tsx'
import { hosterMarks } from './hoster-marks.ts'
import styles from './operator.module.css'
import { useMayOperate } from './use-may-operate.ts'

const InviteDialog = lazy(
  fromGateway(async () => ({ default: (await import('../../parts/InviteDialog.tsx')).InviteDialog })),
)

const roles = ['owner', 'developer', 'billing', 'viewer'].map(value => ({
  value,
  label: codeText(value),
}))

/** One hoster as the operator reviews it. */
export function Hoster() {
  const hosterId = useParams({ strict: false }).hosterId!
  const hoster = useQuery(hosterReviewQuery(hosterId))
  return (
    <Page
      title={hoster.data?.name ?? t`Hoster`}
      actions={<Link to="/h/$hosterId" params={{ hosterId }}>{t`See what the hoster sees`}</Link>}
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
      <Panel title={t`Hoster`}>
        <Facts
          facts={{
            [t`State`]: <State state={hosterMarks[hoster.state]}>{codeText(hoster.state)}</State>,
            [t`Server`]: hoster.transport === 'agent' ? t`connects by an agent` : <code>{hoster.base_url}</code>,
            [t`Share`]: shareText(hoster.share),
            [t`Applied`]: <When at={hoster.created_at} />,
            [t`First active`]: hoster.active_since === null ? t`not yet` : <When at={hoster.active_since} />,
            [t`Region`]: hoster.manifest?.region,
            [t`Data policy`]: hoster.manifest === null ? null : policyText(hoster.manifest.data_policy),
            [t`Id`]: (
              <>
                <code>{hoster.id}</code> <CopyButton text={hoster.id} what={t`the id of the hoster`} />
              </>
            ),
          }}
        />
      </Panel>
      <Verification verification={hoster.verification} />
      <Panel title={t`Models and prices`}>
        {hoster.models.length === 0 ? (
          <EmptyState text={t`It offers no model yet.`} />
        ) : (
          <DataTable
            label={t`Models and prices`}
            rows={hoster.models}
            keyOf={({ model }) => model}
            columns={[
              { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
              {
                title: t`Quantization`,
                cell: ({ model }) =>
                  hoster.manifest?.models.find(({ id }) => id === model)?.quantization ?? t`not stated`,
              },
              {
                title: t`USD per million, in / out`,
                align: 'right',
                place: 'figure',
                cell: each => `${exactUsd(each.input_usd_per_million)} / ${exactUsd(each.output_usd_per_million)}`,
                sortBy: each => each.input_usd_per_million + each.output_usd_per_million,
              },
            ]}
          />
        )}
      </Panel>
      <HosterTrust hoster={hoster} />
      <HosterMoney hosterId={hoster.id} name={hoster.name} />
      <Panel
        title={t`People`}
        aside={
          mayOperate &&
          hoster.state !== 'retired' && (
            <Button size="compact-sm" variant="default" onClick={() => setInviting(true)}>{t`Invite a person`}</Button>
          )
        }
      >
        {hoster.people.length === 0 ? (
          <EmptyState text={t`Nobody signs in for it yet. Invite its owner.`} />
        ) : (
          <DataTable
            label={t`People`}
            rows={hoster.people}
            keyOf={({ email }) => email}
            columns={[
              { title: t`Person`, place: 'name', cell: ({ email }) => email, sortBy: ({ email }) => email },
              { title: t`Role`, cell: ({ role }) => codeText(role), sortBy: ({ role }) => role },
            ]}
          />
        )}
      </Panel>
      <Panel title={t`History`}>
        <DataTable
          label={t`History`}
          rows={hoster.state_changes}
          keyOf={({ at, to }) => `${at} ${to}`}
          columns={[
            { title: t`Time`, cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
            { title: t`State`, place: 'name', cell: ({ to }) => codeText(to), sortBy: ({ to }) => to },
            { title: t`Reason`, cell: ({ reason, reason_codes }) => saidText(reason, reason_codes) },
            { title: t`By`, cell: ({ by }) => (by === 'system' ? t`the gateway` : codeText(by)) },
          ]}
        />
      </Panel>
      {isInviting && (
        <Suspense>
          <InviteDialog
            path={`operator/hosters/${hoster.id}/invites`}
            areas={['supply', 'hoster-people']}
            roles={roles}
            firstRole="owner"
            onClose={() => setInviting(false)}
          />
        </Suspense>
      )}
      {chosen !== null && <HosterStateDialog hoster={hoster} to={chosen} onClose={() => setChosen(null)} />}
    </>
  )
}

function Verification({ verification }: { verification: HosterReview['verification'] }) {
  const { challenge, manifest, prices, probes, checked_at: checkedAt } = verification
  const rows = [
    { check: t`Proof of the server`, isPassed: challenge.passed, problem: problemText(challenge) },
    { check: t`Models`, isPassed: manifest.passed, problem: problemText(manifest) },
    { check: t`Prices within your bounds`, isPassed: prices.passed, problem: problemText(prices) },
    ...probes.map(({ model, passed, ...found }) => ({
      check: t`Answers of ${model}`,
      isPassed: passed >= 3,
      problem: problemText(found) ?? t`${passed} of 3`,
    })),
  ]
  return (
    <Panel
      title={t`Verification`}
      aside={
        <span className={styles.hint}>
          {checkedAt === null ? t`not checked yet` : <When at={checkedAt} form="distance" />}
        </span>
      }
    >
      <DataTable
        label={t`Verification`}
        rows={rows}
        keyOf={({ check }) => check}
        columns={[
          { title: t`Check`, place: 'name', cell: ({ check }) => check },
          {
            title: t`Result`,
            place: 'figure',
            cell: ({ isPassed }) => <State state={isPassed ? 'ok' : 'warn'}>{isPassed ? t`passed` : t`open`}</State>,
          },
          { title: t`Detail`, cell: ({ isPassed, problem }) => (isPassed ? '' : problem) },
        ]}
      />
    </Panel>
  )
}

function policyText(policy: NonNullable<HosterReview['manifest']>['data_policy']): string {
  if (policy === null || policy === undefined) return t`not stated`
  const { trains_on_data: trains, retention_days: days } = policy
  const kept = days === null ? t`kept without limit` : days === 0 ? t`not kept` : t`kept for ${days} days`
  return `${trains ? t`used for training` : t`not used for training`}, ${kept}`
}
