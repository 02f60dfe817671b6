import type { ReactNode } from 'react'

// Lines of 1.5 px on a grid of 20 px. They never stand without a name.

function icon(drawing: ReactNode) {
  return function Icon() {
    return (
      <svg
        width="20"
        height="20"
        viewBox="0 0 20 20"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
        aria-hidden="true"
      >
        {drawing}
      </svg>
    )
  }
}

export const HomeIcon = icon(<path d="M3 9.5 10 4l7 5.5M5 8.5V16h10V8.5" />)
export const UsageIcon = icon(<path d="M4 16V9m4 7V4m4 12v-5m4 5V7" />)
export const ActivityIcon = icon(<path d="M3 5h2m3 0h9M3 10h2m3 0h9M3 15h2m3 0h9" />)
export const KeyIcon = icon(
  <>
    <circle cx="7" cy="13" r="3.2" />
    <path d="m9.4 10.6 6.1-6.1m-2.2 2.2 2 2" />
  </>,
)
export const CreditIcon = icon(<path d="M2.5 5.5h15v9h-15zM2.5 8.5h15M5.5 12h3" />)
export const ModelsIcon = icon(<path d="M10 3 16.5 6.5v7L10 17l-6.5-3.5v-7zM3.5 6.5 10 10l6.5-3.5M10 10v7" />)
export const PlaygroundIcon = icon(<path d="M3.5 4.5h13v9h-7l-3.5 3v-3H3.5z" />)
export const SettingsIcon = icon(<path d="M3 6h8m4 0h2M3 14h2m4 0h8M13 4v4M7 12v4" />)
export const MenuIcon = icon(<path d="M3 6h14M3 10h14M3 14h14" />)
export const CopyIcon = icon(<path d="M7 7h9v9H7zM4 13V4h9" />)
export const CloseIcon = icon(<path d="m5 5 10 10M15 5 5 15" />)
export const CheckIcon = icon(<path d="m4 10.5 4 4 8-9" />)
export const MoreIcon = icon(<path d="M4.5 10h.01M10 10h.01M15.5 10h.01" strokeWidth="2.5" />)
export const ServerIcon = icon(<path d="M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01" />)
export const PeopleIcon = icon(
  <>
    <circle cx="7.5" cy="7" r="2.7" />
    <path d="M2.5 16c.4-3 2.3-4.5 5-4.5s4.6 1.5 5 4.5M13 4.6a2.7 2.7 0 0 1 0 4.8M14.5 11.8c1.7.6 2.8 2 3 4.2" />
  </>,
)
export const PersonIcon = icon(
  <>
    <circle cx="10" cy="7" r="3" />
    <path d="M4 17c.5-3.5 2.8-5 6-5s5.5 1.5 6 5" />
  </>,
)
export const SwitchIcon = icon(<path d="m6.5 8 3.5-3.5L13.5 8M6.5 12l3.5 3.5 3.5-3.5" />)
