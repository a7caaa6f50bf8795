// Runs in a browser at the end of a page of `megalith report`: writes what was really drawn to an attribute of the page.
function measure() {
    const seen = box => box.width > 10 && box.height > 0;
    const drawn = [];
    let outside = 0;
    for (const figure of document.querySelectorAll("figure")) {
        const frame = figure.querySelector("svg").getBoundingClientRect();
        const curves = [...figure.querySelectorAll("g path.c")];
        for (const curve of curves) {
            const box = curve.getBoundingClientRect();
            if (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom) outside++;
        }
        drawn.push(figure.id + ": " + curves.length + " curves, " + curves.filter(c => seen(c.getBoundingClientRect())).length + " seen");
    }
    const pictures = [...document.querySelectorAll("#schedule img")];
    drawn.push("schedule: " + pictures.length + " pictures, " + pictures.filter(p => p.complete && p.naturalWidth > 100).length + " seen");
    drawn.push("bars: " + new Set([...document.querySelectorAll(".bars rect")].filter(r => seen(r.getBoundingClientRect())).map(r => r.y.baseVal.value)).size + " rows");
    drawn.push("outside: " + outside);
    document.body.setAttribute("data-drawn", drawn.join(";"));
}
window.addEventListener("load", measure);
