import { t } from '@lingui/core/macro'
import type { OwnTrust } from '../../api/hoster-queries.ts'
import { countText, shareText } from '../../format/number-text.ts'
import styles from './hoster.module.css'

type Component = OwnTrust['components'][number]

/** A trusted hoster has more than this. */
export const TRUSTED_ABOVE = 0.8

export const componentNames = {
  reliability: t`Reliability`,
  honesty: t`Honesty`,
  conformance: t`Conformance`,
} as const

/** What a component of the score says, in words. */
export function componentText({ name, rate, sample }: Component): string {
  const of = countText(Math.round(sample))
  if (sample === 0) return t`nothing is known yet`
  if (name === 'reliability') return t`served ${shareText(rate)} of ${of} requests`
  if (name === 'honesty') return t`passed ${shareText(rate)} of ${of} audits`
  return t`usage could be read in ${shareText(rate)} of ${of} answers`
}

/** The score and its three parts, as words and bars. */
export function TrustMeters({ trust }: { trust: OwnTrust }) {
  return (
    <div className={styles.trust}>
      <ScoreBar
        label={t`Score`}
        value={isMeasured(trust) ? trust.score : null}
        text={
          trust.is_set_by_operator
            ? t`set by the operator`
            : trust.is_trusted
              ? t`trusted`
              : t`trusted above ${TRUSTED_ABOVE.toFixed(2)}`
        }
        need={TRUSTED_ABOVE}
      />
      {trust.components.map(component => (
        <ScoreBar
          key={component.name}
          label={componentNames[component.name]}
          value={component.sample === 0 ? null : component.bound}
          text={componentText(component)}
        />
      ))}
    </div>
  )
}

function isMeasured({ components, is_set_by_operator, score }: OwnTrust): boolean {
  return is_set_by_operator || score > 0 || components.some(({ sample }) => sample > 0)
}

/** @param props.value null: not measured yet */
function ScoreBar({ label, value, text, need }: { label: string; value: number | null; text: string; need?: number }) {
  const share = value ?? 0
  const figure = value === null ? t`not yet measured` : value.toFixed(2)
  return (
    <div className={styles.part}>
      <div className={styles.partHead}>
        <span>{label}</span>
        {value === null ? <span className={styles.hint}>{figure}</span> : <b className={styles.number}>{figure}</b>}
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: browsers do not let the element "meter" be styled alike */}
      <div
        className={styles.bar}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={1}
        aria-valuenow={share}
        aria-valuetext={`${figure}, ${text}`}
      >
        <div
          className={styles.barFill}
          data-level={share > TRUSTED_ABOVE ? 'high' : share > 0.5 ? 'middle' : 'low'}
          style={{ width: `${share * 100}%` }}
        />
        {need !== undefined && <div className={styles.barNeed} style={{ left: `${need * 100}%` }} />}
      </div>
      <span className={styles.hint}>{text}</span>
    </div>
  )
}
