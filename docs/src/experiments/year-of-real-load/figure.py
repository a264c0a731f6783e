"""Draws jobs lost through the year as SVG."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 56, 16, 36, 44
DAYS = 366
STEPS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
COLOURS = ["#1b6ca8", "#c8553d"]
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'


def lost_through_the_year(by_title):
    """A line for each seed: how many jobs were lost up to each day."""
    most = max([len(days) for runs in by_title.values() for days in runs] + [1])
    step = next(step for step in STEPS if most <= 8 * step)
    top = -(-most // step) * step
    parts = [axes(top, step)]
    for (title, runs), colour, place in zip(by_title.items(), COLOURS, range(2)):
        parts.append(f'<rect x="{LEFT + place * 220}" y="11" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 20 + place * 220}" y="18" {FONT}>{title}</text>')
        parts += [line(days, top, colour) for days in runs]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = "<title>Jobs lost to failing nodes through the year</title>"
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, title, background, *parts, "</svg>", ""])


def x(day):
    return LEFT + (WIDTH - LEFT - RIGHT) * min(day, DAYS) / DAYS


def y(jobs, top):
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * jobs / top


def axes(top, step):
    parts = []
    for jobs in range(0, top + 1, step):
        at = y(jobs, top)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" {FONT}>{jobs}</text>')
    for day in range(0, DAYS, 60):
        parts.append(f'<text x="{x(day):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" {FONT}>{day}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{x(DAYS / 2):.1f}" y="{HEIGHT - 8}" text-anchor="middle" {FONT}>days</text>')
    turned = f'transform="rotate(-90 16 {middle})" text-anchor="middle"'
    parts.append(f'<text x="16" y="{middle}" {turned} {FONT}>jobs lost</text>')
    return "\n".join(parts)


def line(days, top, colour):
    path = f"M{x(0):.1f} {y(0, top):.1f}"
    for jobs, day in enumerate(days, start=1):
        path += f"H{x(day):.1f}V{y(jobs, top):.1f}"
    return f'<path d="{path}H{x(DAYS):.1f}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-opacity="0.7"/>'
