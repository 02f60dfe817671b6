import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { PromotionReviewsShown } from '#api/operator/payouts.ts'
import { chargeText } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { ReasonDialog } from './ReasonDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

type Review = PromotionReviewsShown['data'][number]

/** Earnings that related customers paid with promotion credit. They keep a batch waiting. */
export function PromotionReviews({ reviews }: { reviews: readonly Review[] }) {
  const mayOperate = useMayOperate()
  const [decision, setDecision] = useState<{ review: Review; isReleased: boolean } | null>(null)
  if (reviews.length === 0) return null
  return (
    <Panel title={t`Promotional earnings of related customers`}>
      <DataTable
        label={t`Promotional earnings of related customers`}
        rows={reviews}
        keyOf={({ id }) => id}
        columns={[
          { title: t`Hoster`, place: 'name', cell: ({ hoster }) => hoster, sortBy: ({ hoster }) => hoster },
          {
            title: t`Evidence`,
            cell: ({ evidence }) => (
              <ul>
                {evidence.map(({ customer_id, email, evidence: kind, detail }) => (
                  <li key={`${customer_id} ${kind} ${detail}`}>
                    {email ?? customer_id}: {codeText(kind)}
                    {detail !== null && ` (${detail})`}
                  </li>
                ))}
              </ul>
            ),
          },
          {
            title: 'USD',
            align: 'right',
            place: 'figure',
            cell: ({ share_usd }) => chargeText(share_usd),
            sortBy: ({ share_usd }) => share_usd,
          },
          {
            title: '',
            align: 'right',
            cell: review =>
              mayOperate && (
                <div className={styles.buttons}>
                  <Button size="compact-sm" onClick={() => setDecision({ review, isReleased: true })}>
                    <Trans>
                      Release<span className="visually-hidden"> to {review.hoster}</span>
                    </Trans>
                  </Button>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => setDecision({ review, isReleased: false })}
                  >
                    <Trans>
                      Withhold<span className="visually-hidden"> from {review.hoster}</span>
                    </Trans>
                  </Button>
                </div>
              ),
          },
        ]}
      />
      {decision !== null && (
        <ReasonDialog
          title={
            decision.isReleased
              ? t`Release them to ${decision.review.hoster}?`
              : t`Withhold them from ${decision.review.hoster}?`
          }
          action={decision.isReleased ? t`Release them` : t`Withhold them`}
          isDanger={!decision.isReleased}
          reader={t`The audit log keeps it.`}
          send={reason => ({
            method: 'POST',
            path: `operator/promotion-reviews/${decision.review.id}`,
            body: { is_released: decision.isReleased, reason },
          })}
          done={decision.isReleased ? t`They are paid within the budget.` : t`They went back to the promotion account.`}
          onClose={() => setDecision(null)}
        >
          {decision.isReleased
            ? t`They are paid within the budget of their days.`
            : t`Payouts to the hoster that were not sent are cancelled. The next batch pays the rest.`}
        </ReasonDialog>
      )}
    </Panel>
  )
}
